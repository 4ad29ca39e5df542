// AdamW (formula: step_ops.h) or Muon (muon.h) on fp32 or bf16 main parameters. Each rank updates
// the part that it owns (ZeRO stage 1: Rajbhandari et al. 2020, arXiv 1910.02054).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/mesh.h"
#include "model/ownership.h"
#include "model/parameters.h"
#include "optim/muon.h"
#include "optim/state_windows.h"
#include "spec/run_plan.h"

namespace gptrain {

class Optimizer {
public:
    Optimizer(Backend& backend, Memory& memory, const Mesh& mesh, Parameters& parameters,
              const OptimizerPlan& plan, const OffloadSpec& offload = {});

    /// Draws the initial parameter values and clears the optimizer's state.
    void initialise(std::uint64_t seed);
    /// Clears the gradients that the step does not overwrite. Call before a step's first backward.
    void clear_gradients();
    /// Adds the squares of the whole model's gradients, each parameter counted once, to the step
    /// state.
    void sum_gradient_squares(const StepRef& step);
    /// Call after a step's last backward: computes the gradient norm of the whole model, decides to
    /// clip or skip, updates, and sends the new weights to all ranks.
    void step(const StepRef& step, const StepPolicy& decision);

    /// A gradient reported by `FindNotFinite`. `begin` is its place in the stage's flat order;
    /// smaller is nearer to the loss.
    struct GradientName {
        std::string name;
        std::int64_t begin = 0;
    };
    GradientName gradient(std::int64_t index) const;

    /// Visits all state that this rank holds, in the memory where it waits: groups weight, exp_avg
    /// and exp_avg_sq (of AdamW's parameters; 8-bit ones as exp_avg_codes, four to a number,
    /// exp_avg_scales and so on), momentum_buffer (of Muon's). The shards mark what it owns. Frozen
    /// weights are in the compute dtype, balances of routers in fp32. Waits for weights in flight.
    void visit(const StateVisitor& visitor) const;
    /// Rounds the main parameters to the compute dtype and sends them to all ranks. Call it after
    /// loading main parameters or frozen weights.
    void publish_weights();

private:
    /// A range that this rank updates.
    struct UpdatedRange {
        OwnedRange range;
        Tensor main_param;
        Tensor main_grad;
        Tensor weight;  ///< compute dtype; empty if it is main_param itself
        struct State {
            std::string_view group;
            Tensor values;
            Shard shard = {};
        };
        std::vector<State> states;
        AdamWPiece adamw;  ///< empty if Muon updates it
    };
    void allocate(Memory& memory, const OptimizerPlan& plan);
    /// Allocates AdamW's moments.
    static void add_moments(Arena& arena, MomentFormat format, UpdatedRange& updated);
    void update(const StepRef& step, std::span<const AdamWPiece> adamw,
                std::span<const MuonPiece> muon);
    void add_piece(const UpdatedRange& updated);
    /// The matrix of a parameter that Muon updates, or those of its experts.
    void add_matrices(const UpdatedRange& updated);
    /// Draws the values of a range in fp32.
    void draw(const Tensor& values, const OwnedRange& range, std::uint64_t seed);
    /// The same in the compute dtype.
    void draw_weights(const Tensor& weights, const OwnedRange& range, std::uint64_t seed);
    /// Sends each owner's new weights to all ranks. The model waits for each range when it reaches
    /// it. If weights are gathered where they are used, only forgets the old ones.
    void distribute_weights();

    Backend& backend_;
    Memory& memory_;
    const Mesh& mesh_;
    Parameters& parameters_;
    AdamWConstants constants_;
    std::uint64_t seed_;  ///< of stochastic rounding
    Muon muon_;
    HeldOnHost held_;
    bool sums_over_dp_cp_;         ///< ranks of dp x cp count different gradients
    std::vector<Tensor> cleared_;  ///< the gradients that a step clears
    std::vector<UpdatedRange> updated_;
    std::vector<AdamWPiece> adamw_pieces_;
    std::vector<MuonPiece> muon_pieces_;
    std::optional<StateWindows> windows_;  ///< if state waits in host memory
    std::vector<OwnedRange> frozen_;       ///< frozen parameters, as it saves them
    std::vector<Tensor> grads_;            ///< gradients whose squares this rank counts
    std::vector<std::size_t> counted_;     ///< their indices in updated_
};

}  // namespace gptrain
