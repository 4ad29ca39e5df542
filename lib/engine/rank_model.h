// One rank's share of the model, and its memory. Training and inference share it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/memory.h"
#include "schedule/executor.h"
#include "schedule/stage_plan.h"
#include "spec/run_plan.h"

namespace gptrain {

struct BatchShape;

/// All arguments, the plan too, must outlive the result.
ModelContext model_context(Backend& backend, const Mesh& mesh, Memory& memory, const RunPlan& plan);

/// The layout of this rank's weights in the compute dtype.
LayoutRequest layout_request(const RunPlan& plan, const MeshPlace& place);

/// The format of the matrices that the plan keeps in fewer bits.
QuantisedFormat quantised_format(const RunPlan& plan);

/// The chunks of this rank's stage.
std::vector<GptChunk> make_chunks(const ModelContext& context, Parameters& parameters,
                                  const RunPlan& plan);

/// This rank's part of the residual stream of its sequences.
StreamSlice stream_slice(const RunPlan& plan, const MeshPlace& place);

Stage make_stage(const ModelContext& context, const std::vector<GptChunk>& chunks,
                 const Parameters& parameters, const RunPlan& plan, StageMemory memory);

/// The numbers of a step's measures, and of an evaluation's.
MeasureCounts step_counts(const RunPlan& plan);
MeasureCounts evaluation_counts(const RunPlan& plan);

/// Reserves memory for a step state with one row per slot.
StepRef reserve_step_state(Memory& memory, std::int64_t slots, const MeasureCounts& counts = {});

/// Reads the step state after all work issued so far.
StepState read_state(Backend& backend, const StepRef& state);

/// The state and the measures after a step or an evaluation, of all ranks.
struct StepNumbers {
    StepState state{};
    std::vector<WeightedSum> measures = {};  ///< in the order of measure_rows
};
/// The results in the bytes of a step-state tensor.
StepNumbers step_numbers(std::span<const std::byte> bytes, const MeshShape& mesh);

/// How samples become the batches of this data rank. If the data has an end-of-document id, the
/// plan must have it.
BatchShape batch_shape(const RunPlan& plan, const MeshPlace& place);
/// The masks that the batches of a run carry.
BatchMasks batch_masks(const RunPlan& plan);

/// The largest sizes of the plan's ops.
OpLimits op_limits(const RunPlan& plan);

/// Gives the backend the memory that it needs for itself.
void provide_backend_memory(Backend& backend, Memory& memory, const OpLimits& limits);

/// The loss and the measures of any number of batches.
struct EvaluationSums {
    WeightedSum loss;
    std::vector<WeightedSum> measures = {};  ///< in the order of measure_rows
    void add(const EvaluationSums& other);
};

/// The sums of a batch over all data ranks, without dropout. All ranks get them. `batch` is this
/// data rank's part. `state` has the measures that are wanted.
EvaluationSums evaluate_batch(const ModelContext& context, const RunPlan& plan, Executor& executor,
                              const StepRef& state, const StepBatch& batch);

}  // namespace gptrain
