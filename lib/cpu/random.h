// Initial weights (formula: value_ops.h).
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void run(const InitNormal& args);

}  // namespace gptrain::cpu
