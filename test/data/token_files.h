// Token data sets for tests, written byte by byte without the program's own writer.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/indexed_dataset.h"
#include "support/temp_folder.h"

namespace gptrain::test {

using Sequences = std::vector<std::vector<std::int32_t>>;

template <class T>
void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Writes prefix.bin and prefix.idx, uint16 or int32, one sequence per document.
inline void write_tokens(const std::filesystem::path& prefix, const Sequences& sequences,
                         bool wide = false) {
    std::string bin;
    std::string lengths;
    std::string offsets;
    std::string documents;
    put<std::int64_t>(documents, 0);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
        put(lengths, static_cast<std::int32_t>(sequences[i].size()));
        put(offsets, static_cast<std::int64_t>(bin.size()));
        put(documents, static_cast<std::int64_t>(i + 1));
        for (const std::int32_t id : sequences[i]) {
            if (wide) {
                put(bin, id);
            } else {
                put(bin, static_cast<std::uint16_t>(id));
            }
        }
    }
    std::string idx("MMIDIDX\0\0", 9);
    put<std::uint64_t>(idx, 1);
    put<std::uint8_t>(idx, wide ? 4 : 8);
    put<std::uint64_t>(idx, sequences.size());
    put<std::uint64_t>(idx, sequences.size() + 1);
    fill(prefix.string() + ".bin", bin);
    fill(prefix.string() + ".idx", idx + lengths + offsets + documents);
}

/// The same, opened.
inline std::shared_ptr<const IndexedDataset> make_tokens(const std::filesystem::path& prefix,
                                                         const Sequences& sequences,
                                                         bool wide = false) {
    write_tokens(prefix, sequences, wide);
    return std::make_shared<const IndexedDataset>(prefix);
}

/// `count` sequences of `length` ids that count up from `first`.
inline Sequences counting(std::int32_t first, std::int64_t count, std::int64_t length) {
    Sequences sequences(static_cast<std::size_t>(count));
    for (auto& sequence : sequences) {
        for (std::int64_t i = 0; i < length; ++i)
            sequence.push_back(first++);
    }
    return sequences;
}

}  // namespace gptrain::test
