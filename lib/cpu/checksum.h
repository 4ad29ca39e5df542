// A checksum of a tensor's bytes (formula: value_ops.h).
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

void run(const Checksum& args);

}  // namespace gptrain::cpu
