// The data that backward attention on sm_90a reads besides its tiles. Separate launches compute it
// beforehand.
#pragma once

#include "cuda/attention/mask.cuh"
#include "cuda/attention/sm90/plan.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda::sm90 {

/// statistics [B, N, padded]: the statistics of all queries, followed by rows whose probabilities
/// and delta are 0. o and d_o are bf16, D is 64 or 128, and padded is a multiple of padded_rows.
void compute_row_statistics(const AttentionParams& p, const HeadTensor& d_o, int padded,
                            RowStatistics* statistics, const Stream& stream);

/// ranges [B, query_tiles]: visible keys of tiles of `rows` queries.
void compute_ranges(const AttentionParams& p, int rows, int query_tiles, KeyRange* ranges,
                    const Stream& stream);

}  // namespace gptrain::cuda::sm90
