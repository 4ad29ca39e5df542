// What a rank holds of a plan's model, and what that needs: common to training and inference.
#pragma once

#include <vector>

#include "backend/memory.h"
#include "data/batch_loader.h"
#include "schedule/executor.h"
#include "schedule/stage_plan.h"
#include "spec/run_plan.h"

namespace gptrain {

/// The plan outlives it, as all else that it is made of.
ModelContext model_context(Backend& backend, const Mesh& mesh, Memory& memory, const RunPlan& plan,
                           std::uint64_t seed);

/// The layout of this rank's weights, as computing in the compute dtype needs it.
LayoutRequest layout_request(const RunPlan& plan, const MeshPlace& place);

/// The chunks of this rank's stage.
std::vector<GptChunk> make_chunks(const ModelContext& context, Parameters& parameters,
                                  const RunPlan& plan);

/// The part of the residual stream that this rank has of its sequences.
StreamSlice stream_slice(const RunPlan& plan, const MeshPlace& place);

Stage make_stage(const ModelContext& context, const std::vector<GptChunk>& chunks,
                 const Parameters& parameters, const RunPlan& plan, StageMemory memory);

/// Memory for a step state with one row for each slot.
StepRef reserve_step_state(Memory& memory, std::int64_t slots);

/// After all that was issued.
StepState read_state(Backend& backend, const StepRef& state);

/// How samples become the batches of this data rank. The spec has its end of document.
BatchShape batch_shape(const RunSpec& spec, const RunPlan& plan, const MeshPlace& place);

/// The largest sizes that a plan's ops see.
OpLimits op_limits(const RunPlan& plan);

/// Takes the memory that the backend itself needs.
void give_memory(Backend& backend, Memory& memory, const OpLimits& limits);

/// A weighted sum over tokens; the loss is its quotient, of however many batches are added up.
struct LossSum {
    double loss = 0;
    double weight = 0;
    void add(const LossSum& other) {
        loss += other.loss;
        weight += other.weight;
    }
    double mean() const { return loss / weight; }
};

/// The loss of a batch without dropout, over all data ranks; all ranks get it. `batch` is this data
/// rank's.
LossSum batch_loss(const ModelContext& context, const RunPlan& plan, Executor& executor,
                   const StepRef& state, const StepBatch& batch);

}  // namespace gptrain
