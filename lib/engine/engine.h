// Everything of a run that computes, over any backend: on a real one it trains, on the meter it
// tells what that takes.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "comm/comm_totals.h"
#include "engine/rank_model.h"
#include "meter/meter_backend.h"
#include "meter/meter_communicator.h"
#include "model/grad_sums.h"
#include "optim/optimizer.h"

namespace gptrain {

class Engine {
public:
    /// Takes all memory of the run, except for checkpoints. With a memory plan it takes exactly
    /// that. The references must outlive the engine.
    Engine(Backend& backend, const Mesh& mesh, const RunSpec& spec, const RunPlan& plan,
           const std::optional<MemoryPlan>& memory = std::nullopt);

    /// From now on `listener`, which outlives the engine, is told of all actions of the schedule.
    void listen(ActionListener& listener) { executor_.listen(listener); }

    /// Starting weights, and a fresh step state.
    void initialise();
    /// One optimizer step; above `loss_limit` (0: none) its update is left out. The host need not
    /// wait for it.
    void step(const StepBatch& batch, double loss_limit = 0);
    /// The loss of a batch without dropout, over all data ranks.
    LossSum evaluate(const StepBatch& batch);

    /// The step state after all that was issued.
    StepState read_state() const { return gptrain::read_state(backend_, state_); }
    /// The same without waiting now: it is read by `state_at` when the device has come there. At
    /// most two points may be waited for at a time.
    struct StatePoint {
        Tensor copy;
        std::int64_t mark = 0;
    };
    StatePoint mark_state();
    StepState state_at(const StatePoint& point) const;
    /// The gradient that `faulty_tensor` of a step state means.
    Optimizer::GradientName faulty_gradient(const StepState& state) const {
        return optimizer_.gradient(state.faulty_tensor);
    }
    /// Carries on from a loaded state: the weights were filled through `visit`, the carried numbers
    /// of the step state are given.
    void restore(const StepState& carried);
    /// Shows all state that goes into a checkpoint.
    void visit(const StateVisitor& visitor) const { optimizer_.visit(visitor); }

    /// Shows the gradients of the last step as they were reduced, before clipping: group
    /// "main_grad".
    void visit_gradients(const StateVisitor& visitor) const;
    /// Shows the weights that this rank computes with, in the compute dtype: group "weight".
    void visit_weights(const StateVisitor& visitor);
    /// A number of the weights that this rank computes with, the same on ranks that hold the same.
    std::int64_t weights_checksum();
    /// Norm of the gradients as they stand, each parameter of the whole model once.
    double gradient_norm();

    Memory& memory() { return memory_; }
    Backend& backend() { return backend_; }

private:
    void write_state(const StepState& state);
    /// Shows each parameter's part of a flat buffer.
    void visit_flat(std::string_view group, const Tensor& flat, const StateVisitor& visitor) const;
    /// The actions of a step with so many microbatches.
    const Schedule& schedule_of(std::int64_t microbatches);

    Backend& backend_;
    const Mesh& mesh_;
    const RunPlan& plan_;
    Memory memory_;
    StepRef state_;
    Tensor checksum_;
    std::array<Tensor, 2> state_copies_;
    std::size_t next_copy_ = 0;
    ModelContext context_;
    Parameters parameters_;
    std::vector<GptChunk> chunks_;
    GradBuckets buckets_;
    GradSums grad_sums_;
    Optimizer optimizer_;
    Executor executor_;
    Schedule schedule_;           ///< of the last step
    std::int64_t scheduled_ = 0;  ///< microbatches in it
    StepDecision decision_;
    std::uint64_t seed_;
};

/// What a step costs on one rank.
struct StepCost {
    MemoryPlan memory;
    LinearOps linear_ops;       ///< of steps and evaluations
    Work forward_and_backward;  ///< of one step at the final global batch size, on this rank
    std::int64_t microbatches = 0;
    CommTotals::ByAxis comm{};  ///< of a step, without its seconds
    std::int64_t sent(Axis axis) const { return comm[static_cast<std::size_t>(axis)].bytes; }
};

/// Runs a start, a step, an evaluation and the snapshot of an asynchronous save over the meter.
/// `needs` are those of the backend to be used; `make` makes communicators that move nothing.
StepCost measure_run(const RunSpec& spec, const RunPlan& plan, const MeshPlace& place,
                     const BackendNeeds& needs,
                     const CommunicatorFactory& make = meter_communicators());

/// The sizes of the parameters that this rank holds, and of the parts that it updates, each with
/// how its gradient is summed and whether the rank saves it: all in which its run differs from
/// those of the other ranks of its stage.
std::vector<std::int64_t> own_sizes(const RunSpec& spec, const RunPlan& plan,
                                    const MeshPlace& place);

}  // namespace gptrain
