// Who waits for whom, according to the records of all ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "spec/run_plan.h"
#include "watch/rank_record.h"

namespace gptrain {

/// The ranks that share a communicator, and how many operations each has started on it.
class SharedOperations {
public:
    void add(int rank, std::int64_t started);
    /// A member waits in this operation.
    void add_wait(std::int64_t number) { awaited_ = std::max(awaited_.value_or(number), number); }
    /// True if a member waits for one that has started only `started` operations.
    bool awaits(std::int64_t started) const { return awaited_ && started < *awaited_; }
    /// The lowest other member that has not started this operation, in which `rank` waits.
    std::optional<int> first_behind(int rank, std::int64_t number) const;

private:
    std::vector<int> members_;           ///< ascending
    std::vector<std::int64_t> started_;  ///< by each of them
    std::vector<std::int64_t> least_;    ///< of `started_`, up to each of them
    std::optional<std::int64_t> awaited_;
};

/// A rank that waits in an operation waits for the members of its communicator that have started
/// fewer. Messages between stages have separate communicators and do not count. Construction takes
/// time in proportion to the number of ranks, and a query in proportion to its logarithm.
class Waits {
public:
    /// One view per rank of the mesh; both outlive it.
    Waits(std::span<const RankView> ranks, const MeshShape& mesh);

    /// The lowest rank that `rank` waits for.
    std::optional<int> first_awaited_by(int rank) const;
    /// True if any rank waits for `rank`, which does not wait itself.
    bool is_awaited(int rank) const;

private:
    /// The operations that the ranks of all communicators of one axis, or of the world, have
    /// started.
    struct OnAxis {
        std::vector<std::int64_t> communicator_of;  ///< of each rank
        std::map<std::int64_t, SharedOperations> communicators;
    };
    OnAxis operations_on(int axis) const;
    std::int64_t started(int rank, int axis) const;

    std::span<const RankView> ranks_;
    const MeshShape& mesh_;
    std::map<int, OnAxis> by_axis_;  ///< only where a rank waits
};

}  // namespace gptrain
