// Answers in the form of OpenAI's API: whole, or as server-sent events.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "infer/prompt_codec.h"
#include "serve/answer.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/request.h"

namespace gptrain {

/// Everything that a reply needs besides the answers. The references must outlive it.
struct ReplyContext {
    const PromptCodec& codec;
    ServeMetrics& metrics;
    std::string path;   ///< for the metrics
    std::string id;     ///< of the completion
    std::string model;  ///< its name
    std::chrono::steady_clock::time_point asked = std::chrono::steady_clock::now();
    std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max();  ///< of a whole reply
};

/// Lists that grow, the members of an object, as JSON: a Json takes several times the memory.
class GrowingLists {
public:
    /// Appends the elements of each list of `object`, whose members are always the same ones.
    /// Returns the bytes that this adds.
    std::int64_t append(const Json& object);
    /// The object as one line.
    std::string line() const;

private:
    std::vector<std::pair<std::string, std::string>> lists_;  ///< names and elements
};

/// Collects the answers of one request and passes them on. The thread that computes calls it.
class CompletionReply final : public AnswerReader {
public:
    /// `prompts`: the tokens of each; answer i belongs to prompt i / request.choices.
    CompletionReply(std::shared_ptr<HttpAnswer> client, CompletionRequest request,
                    std::vector<PromptTokens> prompts, ReplyContext context);
    CompletionReply(const CompletionReply&) = delete;
    CompletionReply& operator=(const CompletionReply&) = delete;
    ~CompletionReply() override;

    void take(std::size_t index, const AnswerPiece& piece) override;
    void give_up(int status, const std::string& message) override;
    bool gone() const override { return over_ || client_->gone(); }

private:
    struct Choice {
        // For text offsets: a decoder of its tokens, and the number of characters decoded so far.
        std::optional<PromptCodec::Decoder> decoder;
        std::int64_t characters = 0;
        bool begun = false;
        // Unless it streams:
        std::string text;
        GrowingLists logprobs;
        std::optional<TextEnd> end;
    };
    void stream(std::size_t index, const AnswerPiece& piece);
    void collect(std::size_t index, const AnswerPiece& piece);
    void finish();
    void count_answered();
    void send_event(const Json& event) const;
    /// The fields that every object begins with.
    Json object(std::string_view chat_name) const;
    /// The text of a choice, or what comes to it.
    Json said(std::size_t index, const std::string& text);
    /// A whole choice, as JSON.
    std::string whole(std::size_t index);
    /// Gives up a whole reply of this many bytes if that is too much.
    void limit(std::int64_t bytes);
    /// The text of the prompt that an answer begins with.
    std::string echo(std::size_t index) const;
    Json logprobs(const AnswerPiece& piece, std::size_t index);
    Json completion_logprobs(const AnswerPiece& piece, std::size_t index);
    Json chat_logprobs(const AnswerPiece& piece) const;
    const std::vector<std::int32_t>& prompt_of(std::size_t index) const;
    Json usage() const;

    std::shared_ptr<HttpAnswer> client_;
    CompletionRequest request_;
    std::vector<PromptTokens> prompts_;
    ReplyContext context_;
    std::int64_t created_;
    std::chrono::duration<double> first_token_{};
    std::vector<Choice> choices_;
    std::int64_t collected_ = 0;  ///< bytes of a whole reply so far
    std::int64_t new_tokens_ = 0;
    std::size_t ended_ = 0;
    bool began_ = false;  ///< the stream
    bool over_ = false;
};

}  // namespace gptrain
