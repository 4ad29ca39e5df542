#include "serve/completion_reply.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace gptrain {
namespace {

Json finish_reason(const std::optional<TextEnd>& end) {
    if (!end) return nullptr;
    const bool length = *end == TextEnd::max_tokens || *end == TextEnd::last_position;
    return length ? "length" : "stop";
}

/// Characters of UTF-8.
std::int64_t characters_of(std::string_view text) {
    return std::count_if(text.begin(), text.end(), [](char byte) {
        return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    });
}

Json number_or_null(const std::optional<double>& number) {
    return number ? Json(*number) : Json();
}

Json numbers_of(std::string_view bytes) {
    Json numbers = Json::array();
    for (const char byte : bytes)
        numbers.push_back(static_cast<unsigned char>(byte));
    return numbers;
}

}  // namespace

CompletionReply::CompletionReply(std::shared_ptr<HttpAnswer> client, CompletionRequest request,
                                 std::vector<std::vector<std::int32_t>> prompts,
                                 ReplyContext context)
    : client_(std::move(client)),
      request_(std::move(request)),
      prompts_(std::move(prompts)),
      context_(std::move(context)),
      created_(static_cast<std::int64_t>(unix_seconds())),
      choices_(prompts_.size() * static_cast<std::size_t>(request_.choices)),
      whole_(choices_.size()) {}

CompletionReply::~CompletionReply() {
    if (over_) return;
    if (client_->gone()) {
        context_.metrics.count_disconnect();
    } else {
        // Nobody else ends the request.
        give_up(503, "the server stops");
    }
}

Json CompletionReply::object(std::string_view chat_name) const {
    return {{"id", context_.id},
            {"object", request_.is_chat() ? chat_name : "text_completion"},
            {"created", created_},
            {"model", context_.model}};
}

const std::vector<std::int32_t>& CompletionReply::prompt_of(std::size_t index) const {
    return prompts_[index / static_cast<std::size_t>(request_.choices)];
}

Json CompletionReply::usage() const {
    std::int64_t prompt = 0;
    for (const auto& ids : prompts_)
        prompt += std::ssize(ids);
    return {{"prompt_tokens", prompt},
            {"completion_tokens", new_tokens_},
            {"total_tokens", prompt + new_tokens_}};
}

Json CompletionReply::completion_logprobs(const AnswerPiece& piece, std::size_t index) {
    Choice& choice = choices_[index];
    // Without echo the first token continues the prompt.
    if (!choice.decoder) {
        choice.decoder.emplace(context_.codec, request_.echo ? std::span<const std::int32_t>()
                                                             : std::span(prompt_of(index)));
    }
    Json tokens = Json::array();
    Json logprobs = Json::array();
    Json tops = Json::array();
    Json offsets = Json::array();
    for (const TokenLogprob& token : piece.tokens) {
        const std::string text = context_.codec.token_text(token.id);
        Json top = Json::object();
        for (const auto& [id, logprob] : token.top) {
            // Of tokens with the same text the likeliest counts.
            const std::string other = context_.codec.token_text(id);
            if (!top.contains(other)) top[other] = logprob;
        }
        if (token.logprob && !top.contains(text)) top[text] = *token.logprob;
        tokens.push_back(text);
        logprobs.push_back(number_or_null(token.logprob));
        tops.push_back(token.logprob ? std::move(top) : Json());
        offsets.push_back(choice.characters);
        choice.characters += characters_of(choice.decoder->push(token.id));
    }
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(logprobs)},
            {"top_logprobs", std::move(tops)},
            {"text_offset", std::move(offsets)}};
}

Json CompletionReply::chat_logprobs(const AnswerPiece& piece) const {
    const auto entry = [&](std::int32_t id, double logprob) {
        return Json{{"token", context_.codec.token_text(id)},
                    {"logprob", logprob},
                    {"bytes", numbers_of(context_.codec.token_bytes(id))}};
    };
    Json content = Json::array();
    for (const TokenLogprob& token : piece.tokens) {
        Json one = entry(token.id, *token.logprob);
        Json top = Json::array();
        for (const auto& [id, logprob] : token.top)
            top.push_back(entry(id, logprob));
        one["top_logprobs"] = std::move(top);
        content.push_back(std::move(one));
    }
    return {{"content", std::move(content)}};
}

Json CompletionReply::logprobs(const AnswerPiece& piece, std::size_t index) {
    if (!request_.logprobs) return nullptr;
    return request_.is_chat() ? chat_logprobs(piece) : completion_logprobs(piece, index);
}

std::string CompletionReply::echo(std::size_t index) const {
    if (request_.max_tokens == 0) return context_.codec.decode(prompt_of(index));
    // A character that ends in the answer is a part of the answer's text.
    PromptCodec::Decoder decoder(context_.codec, {});
    std::string text;
    for (const std::int32_t id : prompt_of(index))
        text += decoder.push(id);
    return text;
}

Json CompletionReply::choice(std::size_t index, const AnswerPiece& piece) {
    Choice& choice = choices_[index];
    Json json = {{"index", index}};
    if (!request_.is_chat()) {
        std::string text = piece.text;
        if (request_.echo && !choice.begun) text.insert(0, echo(index));
        json["text"] = std::move(text);
    } else if (!request_.stream) {
        json["message"] = {{"role", "assistant"}, {"content", piece.text}};
    } else {
        Json delta = Json::object();
        if (!choice.begun) delta["role"] = "assistant";
        if (!piece.text.empty() || !choice.begun) delta["content"] = piece.text;
        json["delta"] = std::move(delta);
    }
    json["logprobs"] = logprobs(piece, index);
    json["finish_reason"] = finish_reason(piece.end);
    choice.begun = true;
    return json;
}

void CompletionReply::send_event(const Json& event) const {
    client_->write("data: " + to_line(event) + "\n\n");
}

void CompletionReply::take(std::size_t index, const AnswerPiece& piece) {
    if (new_tokens_ == 0 && (piece.new_tokens > 0 || piece.end))
        first_token_ = std::chrono::steady_clock::now() - context_.asked;
    new_tokens_ += piece.new_tokens;
    if (piece.end) ++ended_;
    if (request_.stream) {
        if (!std::exchange(began_, true)) {
            context_.metrics.count_request(context_.path, 200);
            client_->begin_events();
        }
        if (!piece.text.empty() || !piece.tokens.empty() || piece.end) {
            Json event = object("chat.completion.chunk");
            event["choices"] = Json::array({choice(index, piece)});
            send_event(event);
        }
    } else {
        AnswerPiece& whole = whole_[index];
        whole.text += piece.text;
        whole.tokens.insert(whole.tokens.end(), piece.tokens.begin(), piece.tokens.end());
        whole.end = piece.end;
    }
    if (ended_ == choices_.size()) finish();
}

void CompletionReply::finish() {
    over_ = true;
    context_.metrics.count_answered(first_token_,
                                    std::chrono::steady_clock::now() - context_.asked);
    if (request_.stream) {
        if (request_.include_usage) {
            Json event = object("chat.completion.chunk");
            event["choices"] = Json::array();
            event["usage"] = usage();
            send_event(event);
        }
        client_->write("data: [DONE]\n\n");
        return client_->end();
    }
    Json reply = object("chat.completion");
    reply["choices"] = Json::array();
    for (std::size_t i = 0; i < whole_.size(); ++i)
        reply["choices"].push_back(choice(i, whole_[i]));
    reply["usage"] = usage();
    context_.metrics.count_request(context_.path, 200);
    client_->send({.body = to_line(reply)});
}

void CompletionReply::give_up(int status, const std::string& message) {
    if (std::exchange(over_, true)) return;
    const HttpReply error = http_error(status, message);
    if (!began_) {
        context_.metrics.count_request(context_.path, status);
        return client_->send(error);
    }
    context_.metrics.count_failed_stream();
    client_->write("data: " + error.body + "\n\n");
    client_->end();
}

}  // namespace gptrain
