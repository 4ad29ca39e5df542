// Text from a trained model.
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
    bool echo = false;  ///< show the prompt, as the model reads it, before what follows it
};

/// Continues `prompt` (text; token ids separated by blanks for a model without tokenizer; rank 0's
/// counts) and gives each piece of the output to `show` as soon as it is known. Stops after
/// max_tokens, at an end of document, or behind the model's last position (with rope, 64 times
/// max_position_embeddings), which a warning says. An empty prompt starts a document.
void generate(const InferenceRun& run, std::string_view prompt, const GenerateOptions& options,
              const std::function<void(std::string_view)>& show);

}  // namespace gptrain
