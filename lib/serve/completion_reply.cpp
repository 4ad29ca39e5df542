#include "serve/completion_reply.h"

#include "base/clock.h"
#include "base/utf8.h"

namespace gptrain {
namespace {

Json finish_reason(const std::optional<TextEnd>& end) {
    if (!end) return nullptr;
    const bool length = *end == TextEnd::max_tokens || *end == TextEnd::last_position;
    return length ? "length" : "stop";
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

std::int64_t GrowingLists::append(const Json& object) {
    lists_.resize(object.size());
    std::int64_t bytes = 0;
    auto list = lists_.begin();
    for (const auto& [name, added] : object.items()) {
        auto& [own_name, elements] = *list++;
        own_name = name;
        bytes -= std::ssize(elements);
        for (const Json& element : added)
            elements += (elements.empty() ? "" : ",") + to_line(element);
        bytes += std::ssize(elements);
    }
    return bytes;
}

std::string GrowingLists::line() const {
    std::string line;
    for (const auto& [name, elements] : lists_)
        line += text(line.empty() ? "{" : ",", to_line(Json(name)), ":[", elements, "]");
    return line + "}";
}

CompletionReply::CompletionReply(std::shared_ptr<HttpAnswer> client, CompletionRequest request,
                                 std::vector<PromptTokens> prompts, ReplyContext context)
    : client_(std::move(client)),
      request_(std::move(request)),
      prompts_(std::move(prompts)),
      context_(std::move(context)),
      created_(static_cast<std::int64_t>(unix_seconds())),
      choices_(prompts_.size() * static_cast<std::size_t>(request_.choices)) {}

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
    return *prompts_[index / static_cast<std::size_t>(request_.choices)];
}

Json CompletionReply::usage() const {
    std::int64_t prompt = 0;
    for (const auto& ids : prompts_)
        prompt += std::ssize(*ids);
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
            // If tokens have the same text, the likeliest counts.
            const std::string other = context_.codec.token_text(id);
            if (!top.contains(other)) top[other] = logprob;
        }
        if (token.logprob && !top.contains(text)) top[text] = *token.logprob;
        tokens.push_back(text);
        logprobs.push_back(number_or_null(token.logprob));
        tops.push_back(token.logprob ? std::move(top) : Json());
        offsets.push_back(choice.characters);
        choice.characters += count_characters(choice.decoder->push(token.id));
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

Json CompletionReply::said(std::size_t index, const std::string& text) {
    const bool begins = !std::exchange(choices_[index].begun, true);
    Json json = {{"index", index}};
    if (!request_.is_chat()) {
        json["text"] = request_.echo && begins ? echo(index) + text : text;
    } else if (!request_.stream) {
        json["message"] = {{"role", "assistant"}, {"content", text}};
    } else {
        Json delta = Json::object();
        if (begins) delta["role"] = "assistant";
        if (!text.empty() || begins) delta["content"] = text;
        json["delta"] = std::move(delta);
    }
    return json;
}

void CompletionReply::send_event(const Json& event) const {
    client_->write("data: " + to_line(event) + "\n\n");
}

void CompletionReply::take(std::size_t index, const AnswerPiece& piece) {
    if (over_) return;
    if (new_tokens_ == 0 && (piece.new_tokens > 0 || piece.end))
        first_token_ = std::chrono::steady_clock::now() - context_.asked;
    new_tokens_ += piece.new_tokens;
    if (piece.end) ++ended_;
    if (request_.stream) {
        stream(index, piece);
    } else {
        collect(index, piece);
    }
    if (!over_ && ended_ == choices_.size()) finish();
}

void CompletionReply::stream(std::size_t index, const AnswerPiece& piece) {
    if (!std::exchange(began_, true)) {
        context_.metrics.count_request(context_.path, 200);
        client_->begin_events();
    }
    if (piece.text.empty() && piece.tokens.empty() && !piece.end) return;
    Json choice = said(index, piece.text);
    choice["logprobs"] = logprobs(piece, index);
    choice["finish_reason"] = finish_reason(piece.end);
    Json event = object("chat.completion.chunk");
    event["choices"] = Json::array({std::move(choice)});
    send_event(event);
}

void CompletionReply::collect(std::size_t index, const AnswerPiece& piece) {
    Choice& choice = choices_[index];
    choice.text += piece.text;
    choice.end = piece.end;
    collected_ += std::ssize(piece.text);
    if (request_.logprobs) collected_ += choice.logprobs.append(logprobs(piece, index));
    limit(collected_);
}

void CompletionReply::limit(std::int64_t bytes) {
    if (bytes <= context_.most_bytes) return;
    give_up(400, text("the reply has more than ", context_.most_bytes,
                      " bytes; ask for less at once, or for a stream"));
}

std::string CompletionReply::whole(std::size_t index) {
    const Choice choice = std::move(choices_[index]);
    std::string line = to_line(said(index, choice.text));
    line.back() = ',';
    return line + "\"logprobs\":" + (request_.logprobs ? choice.logprobs.line() : "null") +
           ",\"finish_reason\":" + to_line(finish_reason(choice.end)) + "}";
}

void CompletionReply::finish() {
    if (request_.stream) {
        count_answered();
        if (request_.include_usage) {
            Json event = object("chat.completion.chunk");
            event["choices"] = Json::array();
            event["usage"] = usage();
            send_event(event);
        }
        client_->write("data: [DONE]\n\n");
        return client_->end();
    }
    std::string body = to_line(object("chat.completion"));
    body.back() = ',';
    body += "\"choices\":[";
    for (std::size_t i = 0; i < choices_.size() && !over_; ++i) {
        body += (i > 0 ? "," : "") + whole(i);
        limit(std::ssize(body));
    }
    if (over_) return;
    body += "],\"usage\":" + to_line(usage()) + "}";
    count_answered();
    context_.metrics.count_request(context_.path, 200);
    client_->send({.body = std::move(body)});
}

void CompletionReply::count_answered() {
    over_ = true;
    context_.metrics.count_answered(first_token_,
                                    std::chrono::steady_clock::now() - context_.asked);
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
