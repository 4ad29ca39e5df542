// The body of a request to gptrain serve, for each path that takes one.
#include "serve/request.h"

#include <algorithm>

#include "fuzz/target.h"

using namespace gptrain;

namespace {

/// Checks what the header and the sampler promise.
void check(const CompletionRequest& request) {
    const SamplingOptions& sampling = request.sampling;
    GPTRAIN_CHECK(sampling.temperature >= 0 && sampling.temperature <= 1e6);
    GPTRAIN_CHECK(sampling.top_p >= 0 && sampling.top_p <= 1);
    GPTRAIN_CHECK(sampling.min_p >= 0 && sampling.min_p <= 1);
    GPTRAIN_CHECK(sampling.repetition_penalty > 0 && sampling.top_k >= 0);
    GPTRAIN_CHECK(request.choices >= 1 && request.max_tokens.value_or(0) >= 0);
    GPTRAIN_CHECK(!request.logprobs || (*request.logprobs >= 0 && *request.logprobs <= 20));
    for (const std::string& stop : request.stop)
        GPTRAIN_CHECK(!stop.empty());
}

void check_prompts(const CompletionRequest& request) {
    GPTRAIN_CHECK(!request.is_chat());
    GPTRAIN_CHECK(std::ssize(request.prompts) * request.choices <= max_answers);
    for (const Prompt& prompt : request.prompts) {
        const auto* ids = std::get_if<std::vector<std::int32_t>>(&prompt);
        GPTRAIN_CHECK(ids == nullptr ||
                      std::all_of(ids->begin(), ids->end(), [](auto id) { return id >= 0; }));
    }
}

void check_messages(const Json& messages) {
    for (const Json& message : messages)
        GPTRAIN_CHECK(message.at("role").is_string() && message.at("content").is_string());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const std::string_view body = test::as_text(bytes, size);
    const auto try_it = [&](const auto& parse) {
        test::accepts(ExitCode::bad_input, "", [&] { parse(); });
    };
    try_it([&] {
        const CompletionRequest request = parse_completion(body);
        check(request);
        check_prompts(request);
    });
    try_it([&] {
        const CompletionRequest request = parse_chat(body);
        check(request);
        GPTRAIN_CHECK(request.is_chat() && !request.messages.empty());
        check_messages(request.messages);
    });
    try_it([&] {
        const TokenizeRequest request = parse_tokenize(body);
        GPTRAIN_CHECK(request.prompt.empty() || request.messages.empty());
        check_messages(request.messages);
    });
    try_it([&] {
        for (const std::int32_t id : parse_detokenize(body))
            GPTRAIN_CHECK(id >= 0);
    });
    return 0;
}
