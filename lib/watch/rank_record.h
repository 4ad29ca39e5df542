// A rank's record of its state, which others can read when the rank no longer responds.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "comm/mesh.h"

namespace gptrain {

/// Short text, stored inline. Longer text is truncated.
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

constexpr std::array<std::int64_t, axes> none_started() {
    std::array<std::int64_t, axes> started{};
    started.fill(-1);
    return started;
}

/// Where a rank is.
struct RankRecord {
    ShortText<64> host;
    std::int64_t pid = 0;
    ShortText<16> phase{"start"};  ///< of the program: "load", "step", ... (Progress::phase)
    std::int64_t step = 0;         ///< of the phase; 0 before the first
    std::int64_t first_step = 0;   ///< of this start of the program; 0 before it
    std::int64_t work = 0;         ///< microbatches of the step
    ShortText<64> action;          ///< of the schedule's list: "BW of microbatch 3"; else empty
    ShortText<24> axis;            ///< of the last operation; "world" for the session's own
    ShortText<16> operation;       ///< all_reduce, ...; empty before the first operation
    std::int64_t number = 0;       ///< of the last operation, on its communicator
    std::int64_t waiting = 0;      ///< 1 while the rank waits for the last operation
    /// Operations started on the communicator of each axis; -1 before it is connected. A waiting
    /// rank waits for the ranks with lower numbers.
    std::array<std::int64_t, axes> started = none_started();
    std::int64_t world_operations = 0;  ///< the same for the session's own communicator

    bool operator==(const RankRecord&) const = default;
};
static_assert(std::is_trivially_copyable_v<RankRecord>);

/// Where a rank's device is with operations that the rank has issued to it.
struct DeviceRecord {
    std::int64_t unfinished = 0;  ///< operations
    std::int64_t waiting = 0;  ///< 1 while the device runs one of them, in which others take part
    ShortText<24> axis;        ///< of the earliest one that it runs
    ShortText<16> operation;
    std::int64_t number = 0;
    std::array<std::int64_t, axes> started = none_started();
};
static_assert(std::is_trivially_copyable_v<DeviceRecord>);

/// If the host has issued work and is not itself waiting, the rank's position is the device's
/// position.
RankRecord with_device(RankRecord record, const DeviceRecord& device);

/// A rank as seen by another one.
struct RankView {
    RankRecord record;
    bool alive = true;  ///< its watchdog beats, so its process and node are alive too
};

}  // namespace gptrain
