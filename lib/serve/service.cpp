#include "serve/service.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/clock.h"
#include "serve/access.h"
#include "serve/page.h"

namespace gptrain {
namespace {

HttpReply json_reply(const Json& json) {
    return {.body = to_line(json)};
}

/// As JSON, without the memory that a Json would take.
std::string list_of(std::span<const std::int32_t> ids) {
    std::string list = "[";
    for (const std::int32_t id : ids)
        list += (list.size() > 1 ? "," : "") + std::to_string(id);
    return list += "]";
}

}  // namespace

Service::Service(const PromptCodec& codec, const ConversationCodec* conversations,
                 ServiceOptions options, ServeMetrics& metrics)
    : codec_(codec),
      conversations_(conversations),
      options_(std::move(options)),
      metrics_(metrics),
      started_(static_cast<std::int64_t>(unix_seconds())) {}

std::optional<HttpReply> Service::refuse(const HttpRequest& request) const {
    auto refusal = refusal_of(request, {.loopback = options_.loopback, .token = options_.token});
    if (refusal) metrics_.count_request("refused", refusal->status);
    return refusal;
}

void Service::answer(const HttpRequest& request, const std::shared_ptr<HttpAnswer>& client) {
    if (client->gone()) return metrics_.count_disconnect();
    HttpReply reply;
    try {
        if (request.path.starts_with("/v1/") && request.method == "POST")
            return complete(request, client);
        if (request.path == "/tokenize") {
            reply = tokenize(request.body);
        } else if (request.path == "/detokenize") {
            reply = detokenize(request.body);
        } else {
            reply = read_only(request);
        }
    } catch (const Error& error) {
        const bool clients = error.code() == ExitCode::bad_input || error.code() == ExitCode::usage;
        reply = http_error(clients ? 400 : 500, error.what());
    } catch (const std::exception& error) {
        reply = http_error(500, error.what());
    }
    // All model names count as one path: clients could otherwise add labels without end.
    const bool of_model = model_in(request.path).has_value();
    metrics_.count_request(of_model ? std::string(models_path) : request.path, reply.status);
    client->send(std::move(reply));
}

void Service::complete(const HttpRequest& http, const std::shared_ptr<HttpAnswer>& client) {
    const bool is_chat = http.path == "/v1/chat/completions";
    CompletionRequest request = is_chat ? parse_chat(http.body) : parse_completion(http.body);
    const auto refuse = [&](int status, std::string_view why) {
        metrics_.count_request(http.path, status);
        client->send(http_error(status, why));
    };
    if (!request.model.empty() && request.model != options_.model)
        return refuse(404, text("'model' must be '", options_.model, "', or left out"));
    if (is_chat) require_chat();
    // Before the prompts are encoded, which may be slow.
    const auto deadline = http.arrived + options_.max_time;
    if (has_stopped()) return refuse(503, "the server stops");
    if (std::chrono::steady_clock::now() > deadline)
        return refuse(503, "the request waited too long; try again later");
    auto prompts = encode(request);
    std::vector<Answer> answers = answers_of(request, prompts);
    check_logprobs(request, answers);
    const auto reader = std::make_shared<CompletionReply>(
        client, std::move(request), std::move(prompts),
        ReplyContext{codec_, metrics_, http.path, new_id(is_chat ? "chatcmpl" : "cmpl"),
                     options_.model, http.arrived, options_.room.reply()});
    for (Answer& answer : answers) {
        answer.reader = reader;
        answer.deadline = deadline;
    }
    const HandOver result = hand_over(std::move(answers));
    if (result == HandOver::too_many)
        reader->give_up(429, "too many answers are waiting; try again later");
    if (result == HandOver::stopped) reader->give_up(503, "the server stops");
}

void Service::require_chat() const {
    if (conversations_ != nullptr) return;
    if (!codec_.has_tokenizer())
        fail(ExitCode::usage, "the model has no tokenizer, which a chat needs");
    fail(ExitCode::usage,
         options_.chat_fault.empty()
             ? "the model has no chat template"
             : "the model's chat template cannot be used: " + options_.chat_fault,
         "; start the server with --template FILE or NAME");
}

const std::string& Service::encodable(const std::string& text) const {
    const std::int64_t bytes = codec_.encoding_bytes(text);
    if (bytes <= options_.room.encoding()) return text;
    fail(ExitCode::usage, "the text has ", text.size(), " bytes; encoding it could take ",
         human_bytes(bytes), " of memory, but at most ", human_bytes(options_.room.encoding()),
         " are used for it; send parts of it, or start the server with a larger --max-body");
}

const std::string& Service::fitting(const std::string& text) const {
    // Check before encoding, which is slow.
    const std::int64_t least = codec_.least_tokens(text);
    if (least <= options_.positions) return encodable(text);
    fail(ExitCode::usage, "the prompt has at least ", least,
         " tokens, but with the answer there is room for ", options_.positions, " together");
}

std::string Service::render_chat(const Json& messages, const Json& template_kwargs) const {
    try {
        return conversations_->render(messages, template_kwargs);
    } catch (const Error& error) {
        // A question alone shows whether the template is at fault, or the conversation.
        if (error.code() != ExitCode::bad_input || renders_questions()) throw;
        fail(ExitCode::usage, "the model's chat template cannot be used: ", error.what(),
             "; start the server with --template FILE or NAME");
    }
}

bool Service::renders_questions() const {
    try {
        conversations_->render(Json::array({{{"role", "user"}, {"content", "a"}}}));
    } catch (const Error&) {
        return false;
    }
    return true;
}

std::vector<std::int32_t> Service::encode(Prompt prompt) const {
    if (const auto* words = std::get_if<std::string>(&prompt))
        return codec_.encode(fitting(*words));
    return codec_.checked(std::get<std::vector<std::int32_t>>(std::move(prompt)));
}

std::vector<PromptTokens> Service::encode(CompletionRequest& request) const {
    using Ids = std::vector<std::int32_t>;
    if (request.is_chat())
        return {std::make_shared<const Ids>(conversations_->encode_text(
            fitting(render_chat(std::exchange(request.messages, {}), request.template_kwargs))))};
    std::vector<PromptTokens> prompts;
    for (Prompt& prompt : request.prompts)
        prompts.push_back(std::make_shared<const Ids>(encode(std::exchange(prompt, {}))));
    return prompts;
}

void Service::check_logprobs(const CompletionRequest& request,
                             std::span<const Answer> answers) const {
    if (!request.logprobs || request.stream) return;
    std::int64_t tokens = 0;
    for (const Answer& answer : answers)
        tokens += answer.max_tokens + (answer.prompt_logprobs ? std::ssize(*answer.prompt) : 0);
    const std::int64_t logprobs = checked_mul(tokens, 1 + *request.logprobs);
    if (logprobs <= options_.room.logprobs()) return;
    fail(ExitCode::usage, "the reply could have ", logprobs, " log-probabilities, but at most ",
         options_.room.logprobs(), " are given at once; ask for fewer, or for a stream");
}

std::int64_t Service::tokens_after(const PromptTokens& prompt,
                                   const CompletionRequest& request) const {
    const std::int64_t room = options_.positions - std::ssize(*prompt);
    const std::int64_t wanted = request.max_tokens.value_or(std::max<std::int64_t>(room, 1));
    if (wanted <= room) return wanted;
    fail(ExitCode::usage, "the prompt has ", prompt->size(), " tokens and the answer up to ",
         wanted, ", but there is room for ", options_.positions, " together");
}

std::vector<Answer> Service::answers_of(const CompletionRequest& request,
                                        const std::vector<PromptTokens>& prompts) const {
    Answer answer;
    answer.sampling = request.sampling;
    answer.stop = request.stop;
    answer.is_chat = request.is_chat();
    answer.logprobs = request.logprobs;
    answer.prompt_logprobs = request.echo && request.logprobs;
    if (answer.is_chat && !conversations_->end_of_turn().empty())
        answer.stop.push_back(conversations_->end_of_turn());
    std::vector<Answer> answers;
    std::random_device random;
    for (const auto& prompt : prompts) {
        if (!request.has_seed) answer.sampling.seed = random();
        answer.prompt = prompt;
        answer.max_tokens = tokens_after(prompt, request);
        for (answer.sample = 0; answer.sample < request.choices; ++answer.sample) {
            answers.push_back(answer);
            ++answer.index;
        }
        ++answer.prompt_number;
    }
    return answers;
}

bool Service::has_stopped() const {
    const std::lock_guard lock(mutex_);
    return stopped_;
}

Service::HandOver Service::hand_over(std::vector<Answer> answers) {
    const std::lock_guard lock(mutex_);
    if (stopped_) return HandOver::stopped;
    const std::int64_t others = counter_.use_count() - 1;
    // Alone, a request may have more answers than may wait.
    if (others > 0 && others + std::ssize(answers) > options_.places + options_.waiting)
        return HandOver::too_many;
    for (Answer& answer : answers)
        answer.counted = counter_;
    std::move(answers.begin(), answers.end(), std::back_inserter(new_));
    arrived_.notify_one();
    return HandOver::done;
}

std::vector<Answer> Service::new_answers(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, patience, [&] { return !new_.empty(); });
    return std::exchange(new_, {});
}

void Service::stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    new_.clear();
}

std::string Service::new_id(std::string_view kind) {
    const std::lock_guard lock(mutex_);
    return text(kind, "-", started_, "-", ++ids_);
}

HttpReply Service::read_only(const HttpRequest& request) const {
    if (request.path == "/")
        return {.type = "text/html; charset=utf-8", .body = std::string(chat_page)};
    if (request.path == "/health") {
        if (!has_stopped()) return json_reply({{"status", "ok"}});
        HttpReply reply = json_reply({{"status", "stopping"}});
        reply.status = 503;
        return reply;
    }
    if (request.path == "/metrics")
        return {.type = "text/plain; version=0.0.4", .body = metrics_.to_text()};
    if (request.path == models_path)
        return json_reply({{"object", "list"}, {"data", Json::array({model()})}});
    const auto name = model_in(request.path);
    if (!name) return tokenizer_info();
    if (*name == options_.model) return json_reply(model());
    return http_error(
        404, text("there is no model '", *name, "'; the server has '", options_.model, "'"));
}

Json Service::model() const {
    return {{"id", options_.model},
            {"object", "model"},
            {"created", started_},
            {"owned_by", "gptrain"},
            {"max_model_len", options_.positions},
            {"chat", conversations_ != nullptr}};
}

HttpReply Service::tokenizer_info() const {
    const auto mark = [](const std::string& word) { return word.empty() ? Json() : Json(word); };
    return json_reply({{"bos_token", mark(codec_.bos_mark())},
                       {"eos_token", mark(codec_.eos_mark())},
                       {"vocab_size", codec_.vocab_size()}});
}

HttpReply Service::tokenize(const std::string& body) const {
    const TokenizeRequest request = parse_tokenize(body);
    std::vector<std::int32_t> ids;
    if (!request.messages.empty()) {
        require_chat();
        ids = conversations_->encode_text(
            encodable(render_chat(request.messages, request.template_kwargs)));
    } else if (const std::string& prompt = encodable(request.prompt); !prompt.empty()) {
        const bool is_mark = prompt == codec_.bos_mark() || prompt == codec_.eos_mark();
        ids = is_mark ? codec_.encode_marked(prompt) : codec_.encode_alone(prompt);
    }
    std::string reply = text("{\"tokens\":", list_of(ids), ",\"count\":", ids.size(),
                             ",\"max_model_len\":", options_.positions, "}");
    if (std::ssize(reply) <= options_.room.reply()) return {.body = std::move(reply)};
    fail(ExitCode::usage, "the reply would have more than ", options_.room.reply(),
         " bytes; send parts of the text");
}

HttpReply Service::detokenize(const std::string& body) const {
    std::vector<std::int32_t> ids = parse_detokenize(body);
    if (ids.empty()) return json_reply({{"prompt", ""}});
    ids = codec_.checked(std::move(ids));
    std::int64_t bytes = 0;
    for (const std::int32_t id : ids)
        bytes += std::ssize(codec_.token_bytes(id));
    if (bytes <= options_.room.decoded_text()) return json_reply({{"prompt", codec_.decode(ids)}});
    fail(ExitCode::usage, "the text has ", bytes, " bytes, but at most ",
         options_.room.decoded_text(), " are given at once; send fewer tokens");
}

}  // namespace gptrain
