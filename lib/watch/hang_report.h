// The report on a hang: the rank that blocks the others, and where all ranks are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "spec/run_plan.h"
#include "watch/rank_record.h"

namespace gptrain {

/// Why the others wait for a rank.
enum class HangCause {
    lost,    ///< no sign of life
    busy,    ///< does not wait for any rank, and does not finish
    behind,  ///< others wait for it while it waits on another communicator
    cycle,   ///< one of several ranks that wait for each other in a cycle
    unknown  ///< all wait, and no operation shows for whom; this is the lowest rank
};

struct Culprit {
    int rank = 0;
    HangCause cause = HangCause::unknown;
    bool operator==(const Culprit&) const = default;
};

/// Finds the rank to blame, from one view per rank of the mesh. In this order:
/// - the lowest lost rank;
/// - of the ranks that do not wait, the lowest one that another waits for, else the lowest;
/// - the end of the chain that starts at the lowest rank and goes from each rank to one that has
///   started fewer operations on the communicator on which the former waits.
Culprit find_culprit(std::span<const RankView> ranks, const MeshShape& mesh);

/// "step 12, BW of microbatch 3, waits in all_reduce 35 on dp".
std::string to_text(const RankRecord& record);

/// How long nothing has moved.
struct HangTime {
    double seconds = 0;
    double hang_seconds = 0;  ///< faults.hang_seconds; Silences may allow less or more
};

/// One line: the culprit with its place in the mesh, its host, where it is, and what to do. `sign`:
/// what else is known of its process, such as "its process is stopped"; may be empty.
std::string hang_message(std::span<const RankView> ranks, const MeshShape& mesh,
                         std::string_view sign, const HangTime& time);

/// One line for each set of ranks that are at the same place, largest sets first; at most 40 lines.
std::vector<std::string> hang_table(std::span<const RankView> ranks);

/// "0-6, 8". `numbers` are ascending.
std::string ranges_text(std::span<const int> numbers);

}  // namespace gptrain
