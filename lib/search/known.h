// A candidate in the queue of a search.
#pragma once

#include <cstddef>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "planner/step_estimate.h"

namespace gptrain {

/// How much is known of a candidate. Each level's bound is at least that of the one before.
enum class Level { flops, least_work, work, schedule, simulated };

/// A candidate that may fit, with the best bounds so far.
struct Known {
    std::size_t candidate = 0;  ///< in the order of the space: decides between equal bounds
    double bound = 0;           ///< seconds per sample
    double bytes = 0;           ///< at least
    double moves = 0;           ///< seconds per sample after the last backward, at least
    Level level = Level::flops;
    std::shared_ptr<const StepEstimate> estimate = {};  ///< once simulated
};

struct Later {
    bool operator()(const Known& a, const Known& b) const {
        return std::pair(a.bound, a.candidate) > std::pair(b.bound, b.candidate);
    }
};

using Queue = std::priority_queue<Known, std::vector<Known>, Later>;

}  // namespace gptrain
