// The losses and the measures of a router.
#pragma once

#include "backend/ops.h"
#include "backend/scratch.h"

namespace gptrain::cpu {

void run(const BalanceSums& args, Scratch& scratch);
void run(const BalanceLoss& args, Scratch& scratch);
void run(const RouterZLoss& args, Scratch& scratch);
void run(const MeasureRouter& args, Scratch& scratch);
void run(const MeasureLoads& args);

std::int64_t router_losses_scratch_bytes(std::int64_t tokens, std::int64_t experts, int threads);

}  // namespace gptrain::cpu
