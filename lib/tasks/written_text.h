// A text that a model writes after a task's prompt, token by token.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tasks/task_questions.h"
#include "text/stop_texts.h"
#include "tokenizer/end_tokens.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {

/// The texts before which the model's text ends.
std::vector<std::string> stop_texts_of(const WriteRequest& request);

/// The tokens that the longest text may have, prompt and output together.
std::int64_t longest_text(std::span<const WriteRequest> requests);

/// The tokenizer, end tokens and limits of the texts that a model writes. The references must
/// outlive the texts.
struct WritingRules {
    const Tokenizer& tokenizer;
    const EndTokens& ends;
    std::int64_t vocab = 0;        ///< the tokens that a text may have
    std::int64_t most_tokens = 0;  ///< of prompt and output together
};

class WrittenText {
public:
    WrittenText(const WriteRequest& request, const WritingRules& rules);

    /// Prompt and output so far.
    std::span<const std::int32_t> tokens() const { return tokens_; }
    /// True if no more tokens follow: the model ended the text, wrote a stop text, or has written
    /// as much as it may.
    bool has_ended() const { return has_ended_; }
    /// The next token of a text that has not ended.
    void push(std::int32_t id);
    /// The output without the stop text. Call it once, at the end.
    std::string finish();

private:
    const WritingRules& rules_;
    std::vector<std::int32_t> tokens_;
    std::int64_t left_;  ///< tokens that the model may still write
    StopTexts stop_;
    StreamDecoder decoder_;
    std::string output_;
    bool has_ended_ = false;
};

}  // namespace gptrain
