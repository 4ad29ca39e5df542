// Softmax cross-entropy and its gradient (formulas: model_ops.h).
#pragma once

#include "backend/ops.h"
#include "backend/scratch.h"

namespace gptrain::cpu {

void run(const SoftCap& args);
void run(const CrossEntropy& args, Scratch& scratch);
void run(const VocabParallelMaximum& args);
void run(const VocabParallelSums& args);
void run(const VocabParallelGradient& args, Scratch& scratch);

/// Scratch bytes for `rows` rows of logits.
std::int64_t cross_entropy_scratch_bytes(std::int64_t rows);

}  // namespace gptrain::cpu
