// Softmax cross-entropy and its gradient. A block handles a row: it reads the row once and keeps as
// much as fits in shared memory for the gradient. Sums of exponentials are rescaled as the maximum
// grows (Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867).
#pragma once

#include "backend/backend.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// Adds the rows' losses in an order that depends only on their number.
void run(const SoftCap& args, const OpContext& context);
void run(const CrossEntropy& args, const OpContext& context);
void run(const VocabParallelMaximum& args, const OpContext& context);
void run(const VocabParallelSums& args, const OpContext& context);
void run(const VocabParallelGradient& args, const OpContext& context);

std::int64_t cross_entropy_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
