// Norms, the residual sum and its dropout. A row is read once and kept in registers, so that each
// pass reads and writes each of its tensors once; rows too long for that are reread through the
// cache.
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

void run(const ResidualAdd& args, const OpContext& context);
/// Statistics are computed from the row as stored, in an order that depends only on H.
void run(const ResidualNormForward& args, const OpContext& context);
/// Each block sums its part of dweight and dbias over many rows; the parts are then added in order.
/// Their number, and so the rounding of these sums, depends on the device's multiprocessors.
void run(const ResidualNormBackward& args, const OpContext& context);
void run(const ApplyDropout& args, const OpContext& context);
/// A warp normalises a head. Backward sums dweight as above.
void run(const HeadNormForward& args, const OpContext& context);
void run(const HeadNormBackward& args, const OpContext& context);
/// RowDots: a warp sums a row. Backward sums dweight as above.
void run(const RowDots& args, const OpContext& context);
void run(const RowNormForward& args, const OpContext& context);
void run(const RowNormBackward& args, const OpContext& context);

/// The number of blocks of a backward op that the device holds at once, with this much shared
/// memory each: at most `most` on a multiprocessor, and max_norm_parts in all. A block more would
/// run alone, after the others.
std::int64_t norm_blocks(const DeviceProperties& device, std::int64_t shared_bytes,
                         std::int64_t most = 2);

/// For the backward ops; the others need none.
std::int64_t norm_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
