// Softmax cross-entropy and its gradient (formulas: ops.h).
#pragma once

#include "backend/ops.h"
#include "backend/scratch.h"

namespace gptrain::cpu {

void cross_entropy(const CrossEntropy& args, Scratch& scratch);
void vocab_parallel_maximum(const VocabParallelCrossEntropy& args);
void vocab_parallel_sums(const VocabParallelCrossEntropy& args);
void vocab_parallel_gradient(const VocabParallelCrossEntropy& args, Scratch& scratch);

/// Scratch bytes for `rows` rows of logits.
std::int64_t cross_entropy_scratch_bytes(std::int64_t rows);

}  // namespace gptrain::cpu
