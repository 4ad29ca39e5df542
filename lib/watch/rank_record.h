// What a rank says of itself, for the others to read when it can no longer be asked.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "comm/mesh.h"

namespace gptrain {

/// Short text without memory of its own; what is too long is cut.
template <std::size_t size>
class ShortText {
public:
    ShortText() = default;
    explicit ShortText(std::string_view text) {
        std::copy_n(text.data(), std::min(text.size(), size), characters_.data());
    }
    std::string_view view() const {
        const auto end = std::find(characters_.begin(), characters_.end(), '\0');
        return {characters_.data(), static_cast<std::size_t>(end - characters_.begin())};
    }
    bool operator==(const ShortText&) const = default;

private:
    std::array<char, size> characters_{};
};

/// Where a rank stands.
struct RankRecord {
    ShortText<64> host;
    std::int64_t pid = 0;
    ShortText<16> phase{"start"};  ///< start, load, step, evaluation, save, end
    std::int64_t step = 0;         ///< of the phase; 0 before the first
    ShortText<64> action;          ///< of the schedule's list: "BW of microbatch 3"; else empty
    ShortText<24> axis;            ///< of the last operation; "world" for the session's own
    ShortText<16> operation;       ///< all_reduce, ...; empty before the first
    std::int64_t number = 0;       ///< of the last operation, on its communicator
    std::int64_t waiting = 0;      ///< 1 while the rank waits for the end of the last operation
    /// Operations started on the communicator of each axis. What a rank waits for is late where
    /// another's number is lower.
    std::array<std::int64_t, axes> started{};
    std::int64_t world_operations = 0;  ///< the same of the session's own

    bool operator==(const RankRecord&) const = default;
};
static_assert(std::is_trivially_copyable_v<RankRecord>);

}  // namespace gptrain
