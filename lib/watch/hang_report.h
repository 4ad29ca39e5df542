// What is said of a run that stands still: which rank holds up the others, and where all are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "spec/run_plan.h"
#include "watch/rank_record.h"

namespace gptrain {

/// A rank as another one sees it.
struct RankView {
    RankRecord record;
    bool beats = true;  ///< its watchdog goes on: the process lives and its node is there
};

/// Why the others wait for a rank.
enum class HangCause {
    lost,    ///< it gives no sign of life
    busy,    ///< it does not wait for anyone, and does not come to an end
    behind,  ///< it waits elsewhere than those that wait for it, and for none that is behind it
    circle,  ///< ranks wait for each other in a circle, of which it is one
    unknown  ///< all wait, and no operation tells for whom; it is the lowest
};

struct Culprit {
    int rank = 0;
    HangCause cause = HangCause::unknown;
    bool operator==(const Culprit&) const = default;
};

/// Of lost ranks the lowest; else of ranks that do not wait the lowest for which another waits, or
/// the lowest; else where the chain ends that leads from the lowest rank to one that has started
/// fewer operations on the communicator in which it waits, and from that one on. A view for each
/// rank of the mesh.
Culprit find_culprit(std::span<const RankView> ranks, const MeshShape& mesh);

/// "step 12, BW of microbatch 3, waits in all_reduce 35 on dp".
std::string to_text(const RankRecord& record);

/// One line: the culprit with its place in the mesh, its host, where it stands, and what to do.
/// `sign` is what is known of its process beside: "its process is stopped", else empty.
std::string hang_message(std::span<const RankView> ranks, const MeshShape& mesh,
                         std::string_view sign, double hang_seconds);

/// A line for each set of ranks that stand at the same place, the largest sets first; at most 40.
std::vector<std::string> hang_table(std::span<const RankView> ranks);

/// "0-6, 8" of ascending numbers.
std::string ranges_text(std::span<const int> numbers);

}  // namespace gptrain
