// Batches without data, to time steps.
#pragma once

#include "data/microbatch.h"
#include "spec/run_plan.h"

namespace gptrain {

/// The step's batch of a data rank, with the sizes and masks of a real one: one document a
/// sequence.
StepBatch made_up_batch(const RunPlan& plan, std::int64_t data_rank);

}  // namespace gptrain
