// Generates text with a trained model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "infer/inference.h"
#include "infer/sampler.h"

namespace gptrain {

struct GenerateOptions {
    std::int64_t max_tokens = 100;
    SamplingOptions sampling;
    bool echo = false;  ///< show the prompt, as the model reads it, before the output
};

/// Continues `prompt` (rank 0's) and passes each piece of output to `show` as soon as it is known.
/// The prompt is text; for a model without a tokenizer, token ids separated by spaces. An empty
/// prompt starts a document. Stops after max_tokens, at an end-of-document token, or, with a
/// warning, after the model's last position (with rope, 64 times max_position_embeddings).
void generate(const InferenceRun& run, std::string_view prompt, const GenerateOptions& options,
              const std::function<void(std::string_view)>& show);

}  // namespace gptrain
