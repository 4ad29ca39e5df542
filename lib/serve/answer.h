// A text that the server continues for a client, and what the client receives.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/sampler.h"
#include "infer/text_generator.h"

namespace gptrain {

/// The tokens of a prompt, which its answers share.
using PromptTokens = std::shared_ptr<const std::vector<std::int32_t>>;

/// A token and how likely the model found it, as natural logarithms, before temperature and the
/// like.
struct TokenLogprob {
    std::int32_t id = 0;
    std::optional<double> logprob;                     ///< nothing for a prompt's first token
    std::vector<std::pair<std::int32_t, double>> top;  ///< the likeliest tokens, likeliest first
};

/// The part that a step adds to an answer.
struct AnswerPiece {
    std::string text;  ///< in whole characters
    std::int64_t new_tokens = 0;
    std::vector<TokenLogprob> tokens;  ///< with `logprobs`
    std::optional<TextEnd> end;        ///< with the last piece
};

/// Who gets an answer. The thread that computes calls it.
class AnswerReader {
public:
    virtual ~AnswerReader() = default;
    /// Delivers the next piece of answer `index`. Nothing follows its end.
    virtual void take(std::size_t index, const AnswerPiece& piece) = 0;
    /// Ends all answers of the request because of an error (an HTTP status).
    virtual void give_up(int status, const std::string& message) = 0;
    /// True if nobody wants the answers any more.
    virtual bool gone() const = 0;
};

/// A text to continue.
struct Answer {
    PromptTokens prompt;          ///< not empty
    std::int64_t max_tokens = 0;  ///< prompt and answer have at most the positions of a place
    SamplingOptions sampling;
    std::vector<std::string> stop;
    std::int64_t prompt_number = 0;        ///< among those of the request
    std::int64_t sample = 0;               ///< of a prompt, for the draw
    bool is_chat = false;                  ///< its text does not continue the prompt's
    std::optional<std::int64_t> logprobs;  ///< of its tokens, each with this many of the likeliest
    bool prompt_logprobs = false;          ///< with `logprobs`: those of the prompt first
    std::shared_ptr<AnswerReader> reader;
    std::size_t index = 0;                ///< among those of the request
    std::shared_ptr<const void> counted;  ///< held until the answer is over, for those who count
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

}  // namespace gptrain
