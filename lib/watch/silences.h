// How long nothing may move before a run hangs, learned from the run itself.
//
// While ranks work at the actions of a step or of an evaluation, nothing moves for at most as long
// as the longest op or message takes. So a silence that is `factor` times as long as the longest
// one so far is a hang, long before `hang_seconds`. A rank that does anything else (it loads,
// saves, waits for its data, writes the log) may have to wait for a file system, which can take
// minutes: there `hang_seconds` alone counts, as it does in the first phases of a kind, when
// algorithms are tuned and memory is touched for the first time.
#pragma once

#include <cstdint>
#include <vector>

#include "watch/rank_record.h"

namespace gptrain {

/// The action of a rank that waits for its data.
inline constexpr std::string_view loading_batch = "loading the batch";

class Silences {
public:
    /// The shortest limit that is learned.
    static constexpr std::int64_t shortest_ms = 5000;
    /// How many phases of a kind, such as steps, have to pass before its silences count.
    static constexpr std::int64_t first_phases = 5;

    /// `factor` 0: the limit is always `hang_ms`.
    Silences(std::int64_t hang_ms, double factor) : hang_ms_(hang_ms), factor_(factor) {}

    /// Nothing on the rank's node has moved for `silence_ms`, while the rank was where `record`
    /// says.
    void observe(const RankRecord& record, std::int64_t silence_ms);
    /// How long nothing may move while the rank is there, in milliseconds: max(shortest_ms, factor
    /// x the longest silence of such phases), and at most hang_ms.
    std::int64_t limit(const RankRecord& record) const;

private:
    struct Kind {
        ShortText<16> phase;
        std::int64_t step = -1;  ///< of the latest phase
        std::int64_t work = 0;   ///< the most that a step had (RankRecord::work)
        std::int64_t phases = 0;
        std::int64_t longest_ms = 0;
    };

    std::int64_t hang_ms_;
    double factor_;
    std::vector<Kind> kinds_;
};

}  // namespace gptrain
