// Fills, casts and sums.
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void run(const Fill& args);
void run(const Cast& args);
void run(const Add& args);
void run(const SumRows& args);

}  // namespace gptrain::cpu
