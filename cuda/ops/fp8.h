// FP8 matrices (formulas: backend/value_ops.h).
#pragma once

#include "backend/backend.h"
#include "backend/ops.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// Reads x once.
void run(const UpdateAmax& args, const OpContext& context);
/// Reads x once, whatever is wanted. For row_sum each block sums the rows of its tile, and these
/// sums are added in an order that depends only on sizes. If a size or stride is no multiple of 16,
/// or a tensor is not aligned to 16 bytes, row_sum takes a second read of x.
void run(const ToFp8& args, const OpContext& context);

/// Reads x once. For any number of rows.
void run(const ToFp8Rows& args, const OpContext& context);
/// Reads x once, into registers. row_sum has the bits that ToFp8 gives it.
void run(const ToFp8Columns& args, const OpContext& context);
/// Reads x twice, the second time from the cache.
void run(const ToFp8Blocks& args, const OpContext& context);

/// Reads and writes each byte once.
void run(const TransposeFp8& args, const OpContext& context);

/// For ToFp8 and ToFp8Columns.
std::int64_t fp8_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
