// Rules for the size of a model and of its training, from published scaling laws.
#pragma once

#include <cstdint>
#include <span>

#include "spec/run_spec.h"

namespace gptrain {

/// A shape of models with heads of 64 or 128 features.
struct ModelSize {
    std::int64_t layers = 0;
    std::int64_t hidden = 0;
    std::int64_t heads = 0;
    std::int64_t seq_length = 0;  ///< to train it with
};

/// From 2 layers to 80, the smallest first, each at most about twice as large as the one before.
std::span<const ModelSize> model_sizes();

/// Tokens per parameter that give the lowest loss for the FLOPs (Hoffmann et al. 2022, arXiv
/// 2203.15556).
constexpr double tokens_per_parameter = 20;

/// Passes over the data that are about as good as new data (Muennighoff et al. 2023, arXiv
/// 2305.16264).
constexpr std::int64_t good_passes = 4;

/// How a model is trained.
struct TrainingSize {
    std::int64_t global_batch_size = 1;  ///< sequences
    std::int64_t steps = 1;
    double lr = 0;
};

/// For C = 6 parameters tokens FLOPs (DeepSeek-AI 2024, arXiv 2401.02954):
///   batch = 0.2920 C^0.3271 tokens, at most tokens / 500, so that there are about 500 steps,
///           rounded to a power of two times `multiple` sequences
///   lr    = 0.3118 C^-0.1250 sqrt(batch as rounded / batch of the law), two digits of it
/// The learning-rate law was fitted above 1e17 FLOPs; smaller runs use its value at 1e17. The
/// square-root scaling follows Malladi et al. 2022 (arXiv 2205.10287) for Adam and is capped at 1.
TrainingSize training_size(std::int64_t parameters, std::int64_t tokens, std::int64_t seq_length,
                           std::int64_t multiple);

/// Sets the number of steps, and the intervals of evaluations, checkpoints and lines that suit it.
void set_steps(RunSpec& spec, std::int64_t steps);

/// The model of this size as in Llama: RoPE, RMSNorm, SwiGLU with 8/3 hidden features, no biases.
ModelSpec model_of(const ModelSize& size, std::int64_t vocab_size);

}  // namespace gptrain
