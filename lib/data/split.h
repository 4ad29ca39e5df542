// Splits a token data set into training, validation and test, as Megatron does.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gptrain {

/// Sequences [begin, end) of a data set.
struct SequenceRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// Training, validation and test as fractions of the sequences; an empty part has no bounds.
struct DataSplit {
    struct Bounds {
        double low;
        double high;
        bool operator==(const Bounds&) const = default;
    };
    std::array<std::optional<Bounds>, 3> parts;

    enum Part { train = 0, validation = 1, test = 2 };
    /// [round(low N), round(high N)) of N sequences, halves to even. An empty part gives an empty
    /// range.
    SequenceRange range(Part part, std::int64_t num_sequences) const;
};

/// Parses up to three comma-separated weights, "969,30,1"; missing ones are 0. Anything else, or
/// weights that are all 0, is an Error (usage) that names the key data.split.
DataSplit parse_split(std::string_view text);

}  // namespace gptrain
