// Softmax cross-entropy and its gradient. A block does a row: it reads it once, and keeps as much
// of it as fits in shared memory for the gradient. Sums of exponentials are rescaled as the maximum
// grows (Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867).
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// The losses of the rows are added in an order that depends on their number alone.
void cross_entropy(const CrossEntropy& args, const OpContext& context);
void vocab_parallel_maximum(const VocabParallelCrossEntropy& args, const OpContext& context);
void vocab_parallel_sums(const VocabParallelCrossEntropy& args, const OpContext& context);
void vocab_parallel_gradient(const VocabParallelCrossEntropy& args, const OpContext& context);

std::int64_t cross_entropy_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
