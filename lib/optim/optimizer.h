// AdamW on fp32 main parameters, each rank updating the part that it owns (ZeRO stage 1:
// Rajbhandari et al. 2020, arXiv 1910.02054).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/mesh.h"
#include "model/ownership.h"
#include "model/parameters.h"
#include "spec/run_spec.h"

namespace gptrain {

class Optimizer {
public:
    /// With `shard` the state is cut among the ranks that share parameters, else each holds all of
    /// it.
    Optimizer(Backend& backend, Memory& memory, const Mesh& mesh, Parameters& parameters,
              const OptimizerSpec& spec, bool shard);

    /// Draws the parameters' starting values and clears exp_avg and exp_avg_sq.
    void initialise(std::uint64_t seed);
    /// Before a step's first backward.
    void clear_gradients();
    /// Adds the squares of the gradients of the whole model, each parameter once, to the step
    /// state.
    void sum_gradient_squares(const StepRef& step);
    /// After its last: gradient norm over the whole model, the decision to clip or skip, the
    /// update, and the new weights on all ranks.
    void step(const StepRef& step, const StepDecision& decision);

    /// A gradient that `find_not_finite` found. `begin`, in the stage's flat order, is smaller
    /// nearer to the loss.
    struct GradientName {
        std::string name;
        std::int64_t begin = 0;
    };
    GradientName gradient(std::int64_t index) const;

    /// Shows all state that this rank holds: groups weight, exp_avg, exp_avg_sq. The shards say
    /// what of it this rank owns.
    void visit(const StateVisitor& visitor) const;
    /// Weights in the compute dtype from the main parameters, on all ranks: after these were
    /// loaded.
    void publish_weights();

private:
    void make_pieces(Memory& memory);
    bool sharded() const { return shard_ && mesh_.dp_cp().size() > 1; }
    /// New weights in the compute dtype become those that all ranks compute with. The model waits
    /// for each of them when it comes to it.
    void distribute_weights();

    Backend& backend_;
    Memory& memory_;
    const Mesh& mesh_;
    Parameters& parameters_;
    AdamWConstants constants_;
    bool shard_;
    std::vector<OwnedRange> ranges_;    ///< that this rank updates
    std::vector<AdamWPiece> pieces_;    ///< the tensors of each
    std::vector<Tensor> grads_;         ///< whose squares this rank counts
    std::vector<std::size_t> counted_;  ///< their ranges
};

}  // namespace gptrain
