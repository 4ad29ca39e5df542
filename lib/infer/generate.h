// Continues prompts with a trained model.
#pragma once

#include <cstdint>
#include <string_view>

#include "infer/text_generator.h"

namespace gptrain {

struct GenerateOptions {
    WriteOptions write;
    std::int64_t samples = 1;  ///< continuations of a prompt
    bool echo = false;         ///< show the prompt, as the model reads it, before the output
};

/// Continues `prompt` (rank 0's). The prompt is text; for a model without a tokenizer, token ids
/// separated by spaces. An empty prompt starts a document. Each continuation ends after max_tokens,
/// before a stop text, at a token that ends texts, or, with a warning, after the model's last
/// position (with rope, 64 times max_position_embeddings). With several samples a line "--- sample
/// 1 of 3 ---" precedes each; sample i does not depend on their number.
void generate(const InferenceRun& run, std::string_view prompt, const GenerateOptions& options,
              const Reader& reader);

/// Continues one prompt after another.
class PromptLoop {
public:
    /// Texts have at most `positions` tokens. All ranks construct and call it together.
    PromptLoop(const InferenceRun& run, std::int64_t positions);

    /// As generate, with a prompt that all ranks have. `turn` counts the prompts, each of which has
    /// different random numbers.
    void continue_prompt(std::string_view prompt, std::int64_t turn, const GenerateOptions& options,
                         const Reader& reader);

private:
    const InferenceRun& run_;
    PromptCodec codec_;
    TextGenerator generator_;
};

}  // namespace gptrain
