// Matrices in NF4 (formulas: backend/nf4_ops.h).
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void run(const FromNf4& args);
void run(const GroupedFromNf4& args);

}  // namespace gptrain::cpu
