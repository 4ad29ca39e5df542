// Norms, the residual sum and its dropout. A row is held in registers from its one read on, so that
// each pass reads and writes what its contract names once; rows too long for that are read again
// through the cache.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// Statistics are taken from the row as stored, in an order that depends on H alone.
void residual_norm_forward(const ResidualNormForward& args, const OpContext& context);
/// Blocks sum their parts of dweight and dbias over many rows, which are then added in order.
void residual_norm_backward(const ResidualNormBackward& args, const OpContext& context);
void dropout_backward(const DropoutBackward& args, const OpContext& context);

/// Of the backward; the others need none.
std::int64_t norm_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
