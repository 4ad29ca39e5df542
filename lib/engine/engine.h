// The computing part of a run, over any backend: on a real one it trains, on the meter it measures
// the cost.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/state_source.h"
#include "engine/forward_passes.h"
#include "engine/rank_model.h"
#include "model/expert_balance.h"
#include "model/grad_sums.h"
#include "optim/optimizer.h"

namespace gptrain {

/// How a step computes its experts, if ranks divide them (parallel.expert).
struct ExpertSlicing {
    std::int64_t slices = 1;  ///< Pass::expert_slices
    bool repeats = false;     ///< the step repeats one that was skipped (Skip::repeat)
};

class Engine {
public:
    /// Allocates all memory of the run, except for checkpoints. With a memory plan it allocates
    /// exactly that. The references must outlive the engine.
    Engine(Backend& backend, const Mesh& mesh, const RunPlan& plan,
           const std::optional<MemoryPlan>& memory = std::nullopt);

    /// From now on reports all actions of the schedule to `listener`, which must outlive the
    /// engine.
    void listen(ActionListener& listener) { listeners_.add(listener); }

    /// Sets initial weights and a fresh step state.
    void initialise();
    /// Zeroes the weights; call it before they are loaded where they have not been initialised.
    void clear_weights() { parameters_.clear(backend_); }
    /// One optimizer step. A loss above `loss_limit` (0: no limit) skips the update. The host need
    /// not wait for the step. If rows of experts found no place in messages, this step and all
    /// later ones update nothing (Skip::repeat) until it is repeated with more slices.
    void step(const StepBatch& batch, double loss_limit = 0, const ExpertSlicing& experts = {});
    /// Forward and backward of the first microbatch of a step that comes next, without an update.
    /// Nothing is sent to other data ranks, and the step computes what it computes without this.
    /// `see` also gets the step's state, last.
    void run_alone(const StepBatch& batch, std::int64_t expert_slices, const Executor::See& see);
    /// The sums of a batch over all data ranks, without dropout.
    EvaluationSums evaluate(const StepBatch& batch);

    /// Passes with the current weights, in the batches of the plan (plan.scores_tasks).
    const ForwardPasses& forward_passes() const { return *forward_passes_; }
    /// Everything that listens to the engine.
    ActionListener& listeners() { return listeners_; }

    /// The step state after all work issued so far.
    StepState read_state() const { return gptrain::read_state(backend_, state_); }
    /// The same without waiting: `numbers_at` reads the state and the measures once the device has
    /// reached this point. At most two points may be pending at a time.
    struct StatePoint {
        Tensor copy;
        std::int64_t mark = 0;
    };
    StatePoint mark_state();
    StepNumbers numbers_at(const StatePoint& point) const;
    /// The gradient named by `faulty_tensor` in a step state.
    Optimizer::GradientName faulty_gradient(const StepState& state) const {
        return optimizer_.gradient(state.faulty_tensor);
    }
    /// The loss scale of a new run.
    double first_loss_scale() const;
    /// Continues from a loaded state: the weights have been filled through `visit`, and `carried`
    /// has the step state's carried values.
    void restore(const StepState& carried);
    /// Visits all state that a checkpoint contains: with an adapter, only its own.
    void visit(const StateVisitor& visitor) const;
    /// Visits the weights of the model without its adapter, with which a run starts (group
    /// "weight"). Frozen weights are in the compute dtype; quantised ones are left out.
    void visit_model(const StateVisitor& visitor) const;

    /// Passes to `load` what visit_model would visit if all frozen weights were in the compute
    /// dtype. While `load` runs, quantised matrices share one buffer for their values.
    void stream_model(const std::function<void(std::span<const StreamedState>)>& load);

    /// Visits the last step's gradients after reduction and before clipping, as group "main_grad":
    /// whole ones, or the parts that this rank keeps if they are divided.
    void visit_gradients(const StateVisitor& visitor) const;
    /// Visits the weights that this rank computes with, in the compute dtype, as group "weight":
    /// whole ones, or the parts that this rank keeps if they are divided; without quantised ones.
    void visit_weights(const StateVisitor& visitor);
    /// Checksums of the weights that this rank keeps, by the axis over which their gradients are
    /// summed, or if they are divided, the axis of the copies: its ranks have the same. 0 where
    /// there are none.
    std::array<std::int64_t, axes> weights_checksums();
    /// The checksum of contiguous values, as of `Checksum`, after all work issued so far.
    std::int64_t checksum(const Tensor& values) { return checksum_of({{values}}); }
    /// The norm of the current gradients, counting each parameter of the whole model once.
    double gradient_norm();

    Memory& memory() { return memory_; }
    Backend& backend() { return backend_; }

private:
    void write_state(const StepState& state);
    /// Starts a step's state and clears what it adds to.
    void begin_step(const StepBatch& batch, double loss_limit, bool repeats);
    std::int64_t checksum_of(std::span<const Tensor> parts);
    /// The actions of a step with this number of microbatches.
    const Schedule& schedule_of(std::int64_t microbatches);

    Backend& backend_;
    const Mesh& mesh_;
    const RunPlan& plan_;
    Memory memory_;
    StageSizes sizes_;
    StepRef evaluation_;  ///< the step state, with the measures of evaluations
    StepRef state_;       ///< the same with those of steps
    Tensor checksum_;
    std::array<Tensor, 2> state_copies_;
    std::size_t next_copy_ = 0;
    ModelContext context_;
    Parameters parameters_;
    std::vector<GptChunk> chunks_;
    GradBuckets buckets_;
    GradSums grad_sums_;
    ExpertBalance balance_;
    Optimizer optimizer_;
    Executor executor_;
    ActionListeners listeners_;
    std::optional<ForwardPasses> forward_passes_;
    Schedule schedule_;           ///< of the last step
    std::int64_t scheduled_ = 0;  ///< microbatches in it
    StepPolicy policy_;
};

}  // namespace gptrain
