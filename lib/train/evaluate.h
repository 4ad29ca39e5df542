// Loss of a trained model on any tokens.
#pragma once

#include <filesystem>
#include <functional>

#include "train/inference.h"

namespace gptrain {

struct EvaluationResult {
    double loss = 0;          ///< mean over tokens, in nats
    double perplexity = 0;    ///< exp(loss)
    std::int64_t tokens = 0;  ///< whose loss was counted
};

/// Loss over every token of a token data set (PREFIX of .bin and .idx) or a text file, in order, in
/// windows of the run's seq_length. All ranks get it. `progress` is told batches done and in all.
EvaluationResult evaluate(const InferenceRun& run, const std::filesystem::path& data,
                          const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace gptrain
