// Tiled attention, forward and backward (Dao 2023, "FlashAttention-2", arXiv 2307.08691): tiles of
// queries against tiles of keys, with the scores of one pair of tiles at a time. Fully masked tiles
// are skipped.
#pragma once

#include "backend/ops.h"
#include "backend/scratch.h"

namespace gptrain::cpu {

void run(const AttentionForward& args, Scratch& scratch);
void run(const AttentionBackward& args, Scratch& scratch);
void run(const MergeAttention& args);
void run(const SinkForward& args);
void run(const SinkBackward& args);

std::int64_t attention_forward_scratch_bytes(std::int64_t head_dim, int threads);
std::int64_t attention_backward_scratch_bytes(std::int64_t keys, std::int64_t head_dim,
                                              int threads);

}  // namespace gptrain::cpu
