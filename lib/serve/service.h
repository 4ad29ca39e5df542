// The paths of the server: who may use them, what a request asks for, and the answers that it
// needs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "infer/conversation_codec.h"
#include "serve/answer.h"
#include "serve/body_room.h"
#include "serve/completion_reply.h"
#include "serve/http_server.h"
#include "serve/metrics.h"

namespace gptrain {

struct ServiceOptions {
    std::string model;                     ///< its name
    std::string token;                     ///< that clients must send; empty: none
    bool loopback = true;                  ///< only this machine can reach the server
    std::int64_t positions = 0;            ///< of prompt and answer together
    std::int64_t places = 1;               ///< answers that are written at a time
    std::int64_t waiting = 1024;           ///< answers that wait for a place; more are refused
    std::chrono::seconds max_time{600};    ///< for an answer
    BodyRoom room{std::int64_t{4} << 20};  ///< of a request
    std::string chat_fault = {};           ///< why the model cannot chat, if its template is faulty
};

/// Threads: any may call `refuse` and `answer`; the one that computes calls everything else.
class Service {
public:
    /// `conversations`: null if the model cannot chat. The references must outlive it.
    Service(const PromptCodec& codec, const ConversationCodec* conversations,
            ServiceOptions options, ServeMetrics& metrics);

    /// As refusal_of, and counted.
    std::optional<HttpReply> refuse(const HttpRequest& request) const;
    /// Answers at once, or hands the wanted answers to new_answers. May take seconds for a long
    /// prompt.
    void answer(const HttpRequest& request, const std::shared_ptr<HttpAnswer>& client);

    /// The answers that were asked for since the last call. With none it waits up to `patience`.
    std::vector<Answer> new_answers(std::chrono::milliseconds patience);
    /// From now on every request is refused.
    void stop();

private:
    void complete(const HttpRequest& request, const std::shared_ptr<HttpAnswer>& client);
    /// Error (usage): the model cannot chat.
    void require_chat() const;
    /// The ids of each prompt, moved out of the request.
    std::vector<PromptTokens> encode(CompletionRequest& request) const;
    std::vector<std::int32_t> encode(Prompt prompt) const;
    /// The text of a chat. Error (usage) if the template cannot make it.
    std::string render_chat(const Json& messages, const Json& template_kwargs) const;
    bool renders_questions() const;
    /// The text. Error (usage) if encoding it could take too much memory.
    const std::string& encodable(const std::string& text) const;
    /// The same, and the text must leave room for an answer.
    const std::string& fitting(const std::string& text) const;
    /// How many tokens may follow a prompt.
    std::int64_t tokens_after(const PromptTokens& prompt, const CompletionRequest& request) const;
    /// Error (usage) if a reply could have too many log-probabilities.
    void check_logprobs(const CompletionRequest& request, std::span<const Answer> answers) const;
    bool has_stopped() const;
    std::vector<Answer> answers_of(const CompletionRequest& request,
                                   const std::vector<PromptTokens>& prompts) const;
    enum class HandOver { done, too_many, stopped };
    HandOver hand_over(std::vector<Answer> answers);
    HttpReply read_only(const HttpRequest& request) const;
    Json model() const;
    HttpReply tokenizer_info() const;
    HttpReply tokenize(const std::string& body) const;
    HttpReply detokenize(const std::string& body) const;
    std::string new_id(std::string_view kind);

    const PromptCodec& codec_;
    const ConversationCodec* conversations_;
    ServiceOptions options_;
    ServeMetrics& metrics_;
    std::int64_t started_;  ///< Unix seconds
    mutable std::mutex mutex_;
    std::condition_variable arrived_;
    std::vector<Answer> new_;
    /// All answers that are not over share it, which counts them.
    std::shared_ptr<const void> counter_ = std::make_shared<char>();
    std::int64_t ids_ = 0;
    bool stopped_ = false;
};

}  // namespace gptrain
