// Rows grouped by expert (formulas: expert_ops.h).
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const GroupByExpert& args, const OpContext& context);
void run(const PlaceRows& args, const OpContext& context);
void run(const GatherRows& args, const OpContext& context);
void run(const CombineRows& args, const OpContext& context);
void run(const WeightRows& args, const OpContext& context);
void run(const GateRows& args, const OpContext& context);
void run(const GateRowsBackward& args, const OpContext& context);

std::int64_t expert_rows_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
