#include "serve/request.h"

#include <limits>
#include <utility>

#include "base/error.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_tokens = std::int64_t{1} << 24;
constexpr std::int64_t most_logprobs = 20;
constexpr std::size_t most_stops = 16;
constexpr std::size_t most_stop_bytes = 4096;  // every answer has a copy

/// The object without its null members, which count as missing.
Json without_nulls(Json object) {
    // The members are in a vector: erasing the null ones one by one takes quadratic time.
    Json given = Json::object();
    auto& members = given.get_ref<Json::object_t&>();
    for (auto& [key, value] : object.get_ref<Json::object_t&>())
        if (!value.is_null())
            members.Json::object_t::Container::emplace_back(key, std::move(value));
    return given;
}

Json parse_object(std::string_view body) {
    Json json = parse_json(body, "the request");
    if (!json.is_object()) fail(ExitCode::bad_input, "the request must be a JSON object");
    return without_nulls(std::move(json));
}

/// Reads the members of a request, or of an object within it.
class Members {
public:
    explicit Members(const Json& json, const char* source = "the request")
        : json_(json), reader_(json, source) {}

    bool has(const char* key) const { return reader_.has(key); }
    const Json& at(const char* key) const { return json_.at(key); }
    const JsonReader& reader() const { return reader_; }

    std::int64_t integer(const char* key, std::int64_t low, std::int64_t high,
                         std::int64_t otherwise) const {
        if (!has(key)) return otherwise;
        const std::int64_t value = reader_.integer(key);
        if (value < low || value > high)
            fail(ExitCode::bad_input, "'", key, "' must be from ", low, " to ", high);
        return value;
    }
    double number(const char* key, double low, double high, double otherwise) const {
        if (!has(key)) return otherwise;
        const double value = reader_.number(key);
        if (!(value >= low && value <= high))
            fail(ExitCode::bad_input, "'", key, "' must be a number from ", low, " to ", high);
        return value;
    }
    bool boolean(const char* key) const { return has(key) && reader_.boolean(key); }

    /// Keys that gptrain does not have may say that they ask for nothing, in one or two ways.
    void require_neutral(const char* key, const Json& neutral, const Json& other = nullptr) const {
        if (has(key) && at(key) != neutral && at(key) != other)
            fail(ExitCode::bad_input, "'", key, "' is not supported; leave it out");
    }

private:
    const Json& json_;
    JsonReader reader_;
};

std::vector<std::string> read_stops(const Members& members) {
    if (!members.has("stop")) return {};
    const Json& stop = members.at("stop");
    std::vector<std::string> stops;
    const auto add = [&](const Json& word) {
        if (!word.is_string() || word.get_ref<const std::string&>().empty())
            fail(ExitCode::bad_input,
                 "'stop' must be a text, or a list of texts, none of it empty");
        stops.push_back(word.get<std::string>());
    };
    if (stop.is_array()) {
        for (const Json& word : stop)
            add(word);
    } else {
        add(stop);
    }
    if (stops.size() > most_stops)
        fail(ExitCode::bad_input, "'stop' must have at most ", most_stops, " texts");
    std::size_t bytes = 0;
    for (const std::string& word : stops)
        bytes += word.size();
    if (bytes > most_stop_bytes)
        fail(ExitCode::bad_input, "'stop' must have at most ", most_stop_bytes, " bytes");
    return stops;
}

std::int32_t read_id(const Json& value, const char* key) {
    if (value.is_number_integer()) {
        // An unsigned number may be above what fits.
        const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= INT32_MAX
                                                     : value.get<std::int64_t>() >= 0;
        if (fits) return static_cast<std::int32_t>(value.get<std::int64_t>());
    }
    fail(ExitCode::bad_input, "'", key, "' has an element that is not a token id");
}

std::vector<std::int32_t> read_ids(const Json& values, const char* key) {
    std::vector<std::int32_t> ids;
    for (const Json& value : values)
        ids.push_back(read_id(value, key));
    return ids;
}

std::vector<Prompt> read_prompts(const Members& members) {
    if (!members.has("prompt")) fail(ExitCode::bad_input, "the request: key 'prompt' is missing");
    const Json& prompt = members.at("prompt");
    if (prompt.is_string()) return {prompt.get<std::string>()};
    if (!prompt.is_array() || prompt.empty()) {
        fail(ExitCode::bad_input,
             "'prompt' must be a text, a list of token ids, or a list of texts or of such lists");
    }
    if (prompt.front().is_number()) return {read_ids(prompt, "prompt")};
    std::vector<Prompt> prompts;
    for (const Json& one : prompt) {
        if (one.is_string()) {
            prompts.emplace_back(one.get<std::string>());
        } else if (one.is_array()) {
            prompts.emplace_back(read_ids(one, "prompt"));
        } else {
            fail(ExitCode::bad_input, "'prompt' must not mix texts, lists and other values");
        }
    }
    return prompts;
}

/// Content in the form of parts, [{"type": "text", "text": ...}, ...], as one text.
std::string read_content(const Json& content) {
    if (content.is_string()) return content.get<std::string>();
    if (!content.is_array()) fail(ExitCode::bad_input, "a message's 'content' must be a text");
    std::string all;
    for (const Json& part : content) {
        const JsonReader reader(part, "a part of a message's content");
        if (reader.string("type") != "text")
            fail(ExitCode::bad_input, "a message's 'content' must be text only");
        all += reader.string("text");
    }
    return all;
}

Json read_messages(const Members& members) {
    const Json& given = members.reader().array("messages");
    if (given.empty()) fail(ExitCode::bad_input, "'messages' must not be empty");
    Json messages = Json::array();
    for (const Json& one : given) {
        if (!one.is_object()) fail(ExitCode::bad_input, "a message must be a JSON object");
        const Json message = without_nulls(one);
        const Members of(message, "a message");
        of.reader().allow_only({"role", "content", "name", "tool_calls", "annotations"});
        if (!of.has("content")) fail(ExitCode::bad_input, "a message has no 'content'");
        for (const char* key : {"tool_calls", "annotations"})
            of.require_neutral(key, Json::array());
        messages.push_back(
            {{"role", of.reader().string("role")}, {"content", read_content(of.at("content"))}});
    }
    return messages;
}

Json read_template_kwargs(const Members& members) {
    constexpr const char* key = "chat_template_kwargs";
    return members.has(key) ? members.reader().object(key) : Json::object();
}

/// A negative seed is another way to write one from 2^63 on.
std::uint64_t read_seed(const Members& members) {
    if (members.has("seed") && members.at("seed").is_number_unsigned())
        return members.at("seed").get<std::uint64_t>();
    return static_cast<std::uint64_t>(members.integer("seed",
                                                      std::numeric_limits<std::int64_t>::min(),
                                                      std::numeric_limits<std::int64_t>::max(), 0));
}

SamplingOptions read_sampling(const Members& members) {
    SamplingOptions sampling;
    sampling.temperature = members.number("temperature", 0, 1e6, sampling.temperature);
    sampling.top_k = members.integer("top_k", 0, max_tokens, sampling.top_k);
    sampling.top_p = members.number("top_p", 0, 1, sampling.top_p);
    sampling.min_p = members.number("min_p", 0, 1, sampling.min_p);
    sampling.repetition_penalty =
        members.number("repetition_penalty", 0.01, 100, sampling.repetition_penalty);
    sampling.seed = read_seed(members);
    return sampling;
}

/// The members that both kinds of request have. `others`: those that this kind has besides.
CompletionRequest read_common(const Members& members,
                              std::initializer_list<std::string_view> others) {
    const std::initializer_list<std::string_view> common = {"model",
                                                            "max_tokens",
                                                            "temperature",
                                                            "top_k",
                                                            "top_p",
                                                            "min_p",
                                                            "n",
                                                            "repetition_penalty",
                                                            "seed",
                                                            "stop",
                                                            "stream",
                                                            "stream_options",
                                                            "logprobs",
                                                            "user",
                                                            "presence_penalty",
                                                            "frequency_penalty",
                                                            "logit_bias"};
    members.reader().allow_only(common, others);
    CompletionRequest request;
    if (members.has("model")) request.model = members.reader().string("model");
    request.sampling = read_sampling(members);
    request.has_seed = members.has("seed");
    request.choices = members.integer("n", 1, max_answers, 1);
    request.stop = read_stops(members);
    request.stream = members.boolean("stream");
    if (members.has("stream_options")) {
        const JsonReader options(members.reader().object("stream_options"), "stream_options");
        options.allow_only({"include_usage"});
        request.include_usage = options.has("include_usage") && options.boolean("include_usage");
    }
    for (const char* key : {"presence_penalty", "frequency_penalty"})
        if (members.has(key) && members.reader().number(key) != 0)
            fail(ExitCode::bad_input, "'", key, "' is not supported; see 'repetition_penalty'");
    members.require_neutral("logit_bias", Json::object());
    return request;
}

}  // namespace

CompletionRequest parse_completion(std::string_view body) {
    const Json json = parse_object(body);
    const Members members(json);
    CompletionRequest request = read_common(members, {"prompt", "echo", "best_of", "suffix"});
    request.prompts = read_prompts(members);
    request.max_tokens = members.integer("max_tokens", 0, max_tokens, 16);
    request.echo = members.boolean("echo");
    if (members.has("logprobs") && members.at("logprobs") != Json(false))
        request.logprobs = members.integer("logprobs", 0, most_logprobs, 0);
    members.require_neutral("best_of", request.choices);
    members.require_neutral("suffix", "");
    if (std::ssize(request.prompts) * request.choices > max_answers)
        fail(ExitCode::bad_input, "prompts x 'n' must be at most ", max_answers);
    return request;
}

CompletionRequest parse_chat(std::string_view body) {
    const Json json = parse_object(body);
    const Members members(json);
    CompletionRequest request = read_common(
        members, {"messages", "chat_template_kwargs", "max_completion_tokens", "top_logprobs",
                  "response_format", "tools", "tool_choice", "parallel_tool_calls", "service_tier",
                  "store", "metadata", "modalities"});
    request.messages = read_messages(members);
    request.template_kwargs = read_template_kwargs(members);
    for (const char* key : {"max_tokens", "max_completion_tokens"})
        if (members.has(key)) request.max_tokens = members.integer(key, 1, max_tokens, 1);
    if (members.boolean("logprobs"))
        request.logprobs = members.integer("top_logprobs", 0, most_logprobs, 0);
    members.require_neutral("response_format", {{"type", "text"}});
    members.require_neutral("tools", Json::array());
    // Without tools both of these ask for nothing.
    members.require_neutral("tool_choice", "none", "auto");
    static_cast<void>(members.boolean("parallel_tool_calls"));
    members.require_neutral("service_tier", "auto", "default");
    members.require_neutral("store", false);
    members.require_neutral("metadata", Json::object());
    members.require_neutral("modalities", Json::array({"text"}));
    return request;
}

TokenizeRequest parse_tokenize(std::string_view body) {
    const Json json = parse_object(body);
    const Members members(json);
    members.reader().allow_only(
        {"model", "prompt", "messages", "chat_template_kwargs", "add_special_tokens"});
    members.require_neutral("add_special_tokens", false);
    if (!members.has("messages")) return {.prompt = members.reader().string("prompt")};
    if (members.has("prompt"))
        fail(ExitCode::bad_input, "the request has both 'prompt' and 'messages'");
    return {.prompt = {},
            .messages = read_messages(members),
            .template_kwargs = read_template_kwargs(members)};
}

std::vector<std::int32_t> parse_detokenize(std::string_view body) {
    const Json json = parse_object(body);
    const Members members(json);
    members.reader().allow_only({"model", "tokens"});
    return read_ids(members.reader().array("tokens"), "tokens");
}

}  // namespace gptrain
