// The losses of a router, and what is measured of it (formulas: expert_ops.h).
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// All sums are in an order that depends only on the shapes.
void run(const BalanceSums& args, const OpContext& context);
void run(const BalanceLoss& args, const OpContext& context);
void run(const RouterZLoss& args, const OpContext& context);
void run(const MeasureRouter& args, const OpContext& context);
void run(const MeasureLoads& args, const OpContext& context);

std::int64_t router_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
