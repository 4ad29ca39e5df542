// A checksum of a tensor's bytes.
#pragma once

#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const Checksum& args, const OpContext& context);

/// For a tensor of any size.
std::int64_t checksum_scratch_bytes();

}  // namespace gptrain::cuda
