// How long nothing may move before a run hangs, learned from the run itself.
//
// While ranks work at the actions of a step or of an evaluation, nothing moves for at most as long
// as the longest op or message takes. So a silence that is `factor` times as long as the longest
// one so far is a hang, long before `hang_seconds`. A rank that does anything else (it loads,
// saves, waits for its data, writes the log) may have to wait for a file system, which can take
// minutes: there `hang_seconds` alone counts, as it does in the first phases of a kind, when
// algorithms are tuned and memory is touched for the first time. In the first steps, a rank that
// waits for nobody has a multiple of that.
//
// A silence counts when it is over. One that lasts would otherwise raise its own limit, `factor`
// times as fast as it grows, and never reach it.
//
// Ops and messages need cores. A rank that computes, or would if it had a core, has the whole time.
// One that waits for others has longer by the time for which other programs had its core, up to
// three times the limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "watch/rank_record.h"

namespace gptrain {

/// The action of a rank that waits for its data.
inline constexpr std::string_view loading_batch = "loading the batch";

/// How a rank's process uses its cores.
struct CoreUse {
    bool computes = false;       ///< it has just computed, or would have with a core
    std::int64_t waited_ms = 0;  ///< for which it has so far been ready to run without a core
};

class Silences {
public:
    /// The shortest limit that is learned.
    static constexpr std::int64_t shortest_ms = 5000;
    /// How many phases of a kind, such as steps, have to pass before its silences count.
    static constexpr std::int64_t first_phases = 5;
    /// In so many steps (a host may be one ahead of its device), a rank that waits for nobody may
    /// be silent for so many times `hang_ms`.
    static constexpr std::int64_t first_steps = 2;
    static constexpr std::int64_t first_factor = 3;

    /// `factor` 0: the limit is always `hang_ms`.
    Silences(std::int64_t hang_ms, double factor) : hang_ms_(hang_ms), factor_(factor) {}

    /// At `now`, the rank is where `record` says; a rank of its node last moved at `moved`. Both in
    /// milliseconds on one clock.
    void observe(const RankRecord& record, const CoreUse& cores, std::int64_t now,
                 std::int64_t moved);
    /// How long nothing may move while the rank is there, in milliseconds: max(shortest_ms, factor
    /// x the longest silence of such phases), longer where cores are short, and at most hang_ms
    /// after the first steps.
    std::int64_t limit(const RankRecord& record, const CoreUse& cores) const;

private:
    struct Kind {
        ShortText<16> phase;
        std::int64_t step = -1;   ///< of the latest phase
        std::int64_t work = 0;    ///< the most that a step had (RankRecord::work)
        std::int64_t phases = 0;  ///< since then
        std::int64_t longest_ms = 0;
    };
    /// The present silence.
    struct Silence {
        std::int64_t began = 0;
        std::int64_t ms = 0;
        std::int64_t waited_ms = 0;       ///< CoreUse::waited_ms when it began
        std::optional<std::size_t> kind;  ///< of the phase, while the rank works
    };

    std::size_t find_or_add(const RankRecord& record);

    std::int64_t hang_ms_;
    double factor_;
    std::vector<Kind> kinds_;
    Silence silence_;
};

}  // namespace gptrain
