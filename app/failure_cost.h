// The training that a failure costs, for a dry run.
#pragma once

#include <cstdint>
#include <optional>

#include "backend/memory.h"
#include "spec/run_spec.h"

namespace gptrain {

/// A node, as far as its memory is concerned.
struct NodeMemory {
    std::int64_t ranks = 1;
    MemoryPlan rank;           ///< of its largest rank
    bool device_here = false;  ///< the host's memory is also the device's
};

/// Prints how many steps a failure repeats at most, by what the next start continues from, and what
/// copies in memory take of a node that has as much memory as this machine. Prints nothing for a
/// run without copies. `step_seconds`: if known.
void print_failure_cost(const CheckpointSpec& checkpoint, const NodeMemory& node,
                        const std::optional<double>& step_seconds);

}  // namespace gptrain
