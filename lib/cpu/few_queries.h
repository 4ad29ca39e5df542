// Attention of few queries over many keys, as in token-by-token generation: its time is that of
// reading keys and values.
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

/// True if attend_few_queries is faster than tiles of queries and keys, which it widens to fp32
/// first: few queries, and no dropout.
bool has_few_queries(const AttentionForward& args);

/// Runs the op. `scratch` has few_queries_scratch_bytes for each thread. A query's bits do not
/// depend on how many others there are.
void attend_few_queries(const AttentionForward& args, std::byte* scratch);

/// Of one thread.
std::int64_t few_queries_scratch_bytes(std::int64_t head_dim);

}  // namespace gptrain::cpu
