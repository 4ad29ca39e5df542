// The choice of experts.
#pragma once

#include "backend/ops.h"
#include "backend/scratch.h"

namespace gptrain::cpu {

void run(const RouterForward& args, Scratch& scratch);
void run(const RouterBackward& args, Scratch& scratch);
void run(const UpdateBalance& args);

std::int64_t router_scratch_bytes(std::int64_t experts, int threads);

}  // namespace gptrain::cpu
