// The bodies of requests, in the form of OpenAI's API. Errors are (bad_input), in one line for the
// client. A key that gptrain cannot honour is an Error, unless its value is a no-op.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "infer/sampler.h"

namespace gptrain {

/// A text, or its token ids.
using Prompt = std::variant<std::string, std::vector<std::int32_t>>;

struct CompletionRequest {
    std::string model;                      ///< empty: whichever is served
    std::vector<Prompt> prompts;            ///< of a chat none
    Json messages;                          ///< of a chat: [{"role": ..., "content": ...}, ...]
    Json template_kwargs = Json::object();  ///< of a chat: other variables for its template
    std::optional<std::int64_t> max_tokens;
    SamplingOptions sampling;
    bool has_seed = false;
    std::int64_t choices = 1;  ///< for each prompt (n)
    std::vector<std::string> stop;
    /// The tokens' log-probabilities, each with those of this many of the likeliest tokens.
    std::optional<std::int64_t> logprobs;
    bool echo = false;    ///< the answer begins with the prompt
    bool stream = false;  ///< server-sent events
    bool include_usage = false;

    bool is_chat() const { return prompts.empty(); }
};

/// A request has at most this many answers: prompts x choices.
constexpr std::int64_t max_answers = 256;

/// The body of POST /v1/completions.
CompletionRequest parse_completion(std::string_view body);
/// The body of POST /v1/chat/completions.
CompletionRequest parse_chat(std::string_view body);
/// A text, or the messages of a chat (CompletionRequest).
struct TokenizeRequest {
    std::string prompt;
    Json messages = Json::array();  ///< empty: the text
    Json template_kwargs = Json::object();
};
/// The body of POST /tokenize: {"prompt": "..."} or {"messages": [...]}.
TokenizeRequest parse_tokenize(std::string_view body);
/// The ids in the body of POST /detokenize: {"tokens": [...]}.
std::vector<std::int32_t> parse_detokenize(std::string_view body);

}  // namespace gptrain
