// Ways out for a candidate that does not fit, with the same mesh: divide more of its state
// among the ranks, or keep it in host memory.
#pragma once

#include <vector>

#include "search/candidate_cost.h"
#include "search/layer_costs.h"
#include "search/space.h"

namespace gptrain {

/// The candidates that take the next less memory and at least as much time, none if there are none:
///  - gradients divided, among all ranks that share them or among those of a node, and state in
///    host memory, unless more than most_offloading ranks divide it, which leaves little to move;
///  - from divided gradients: weights divided among the same ranks;
///  - from weights divided among all ranks: state in host memory too;
///  - from state in host memory: with full recomputation, activations too.
/// So each is reached in one way. A rule of the spec may refuse them. A pipeline has none: its
/// stages divide the same state, and would gather and sum for every microbatch. `reshard` stays the
/// spec's: without it gathered weights take as much memory as with divided gradients alone.
std::vector<Choices> savings_of(const Choices& choices, const SearchSpace& space,
                                const SearchContext& context);

constexpr std::int64_t most_offloading = 8;

/// Lower bounds, in seconds, of what savings add to a step.
struct SavingSeconds {
    double messages = 0;  ///< of gathers, or of sums of gradients, which computation may hide
    double moves = 0;     ///< of state over the link to the host, after the last backward
};
SavingSeconds saving_seconds(const RunPlan& plan, const LayerMemory& memory,
                             const HardwareProfile& hardware);

}  // namespace gptrain
