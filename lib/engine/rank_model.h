// One rank's share of the model, and its memory. Training and inference share it.
#pragma once

#include <vector>

#include "backend/memory.h"
#include "data/batch_loader.h"
#include "schedule/executor.h"
#include "schedule/stage_plan.h"
#include "spec/run_plan.h"

namespace gptrain {

/// All arguments, the plan too, must outlive the result.
ModelContext model_context(Backend& backend, const Mesh& mesh, Memory& memory, const RunPlan& plan);

/// The layout of this rank's weights in the compute dtype.
LayoutRequest layout_request(const RunPlan& plan, const MeshPlace& place);

/// The chunks of this rank's stage.
std::vector<GptChunk> make_chunks(const ModelContext& context, Parameters& parameters,
                                  const RunPlan& plan);

/// This rank's part of the residual stream of its sequences.
StreamSlice stream_slice(const RunPlan& plan, const MeshPlace& place);

Stage make_stage(const ModelContext& context, const std::vector<GptChunk>& chunks,
                 const Parameters& parameters, const RunPlan& plan, StageMemory memory);

/// Reserves memory for a step state with one row per slot.
StepRef reserve_step_state(Memory& memory, std::int64_t slots);

/// Reads the step state after all work issued so far.
StepState read_state(Backend& backend, const StepRef& state);

/// How samples become the batches of this data rank. If the data has an end-of-document id, the
/// plan must have it.
BatchShape batch_shape(const RunPlan& plan, const MeshPlace& place);
/// What the batches of a run carry.
BatchMasks batch_masks(const RunPlan& plan);

/// The largest sizes of the plan's ops.
OpLimits op_limits(const RunPlan& plan);

/// Gives the backend the memory that it needs for itself.
void provide_backend_memory(Backend& backend, Memory& memory, const OpLimits& limits);

/// A weighted sum of losses over tokens, of any number of batches. The loss is loss / weight.
struct LossSum {
    double loss = 0;
    double weight = 0;
    void add(const LossSum& other) {
        loss += other.loss;
        weight += other.weight;
    }
    double mean() const { return loss / weight; }
};

/// The loss of a batch over all data ranks, without dropout. All ranks get it. `batch` is this data
/// rank's part.
LossSum batch_loss(const ModelContext& context, const RunPlan& plan, Executor& executor,
                   const StepRef& state, const StepBatch& batch);

}  // namespace gptrain
