#include "text/chat_lines.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "text/json_line.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_settings_bytes = std::int64_t{16} << 20;

/// Refuses a document. The caller adds its place.
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
    fail(ExitCode::bad_input, parts...);
}

const std::string& text_under(const Json& line, const std::string& key) {
    if (!line.at(key).is_string()) refuse("the value of '", key, "' must be a string");
    return line.at(key).get_ref<const std::string&>();
}

/// Messages come from strangers' files; what templates need of them is checked here.
void check_message(const Json& message, const std::string& name) {
    if (!message.is_object()) refuse(name, " must be an object with a role and a content");
    const auto role = message.find("role");
    if (role == message.end() || !role->is_string() || role->get_ref<const std::string&>().empty())
        refuse(name, " has no role; it must be a text such as \"user\" or \"assistant\"");
    const auto content = message.find("content");
    const bool calls = message.contains("tool_calls");
    const bool none = content == message.end() || content->is_null();
    if (none && !calls) refuse(name, " has no content");
    if (!none && !content->is_string() && !content->is_array())
        refuse(name, ": its content must be a string");
    const bool empty = !none && (content->empty() || *content == "");
    if (*role == "assistant" && !calls && empty) refuse(name, ": the assistant's content is empty");
}

void check_messages(const Json& messages, std::string_view key) {
    if (!messages.is_array()) refuse("the value of '", key, "' must be a list of messages");
    bool learned = false;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        check_message(messages[i], text(key, "[", i, "]"));
        learned = learned || messages[i].at("role") == "assistant";
    }
    if (!learned) refuse("'", key, "' has no message of the assistant: there is nothing to learn");
}

/// The templates that have a name take only texts.
void check_texts(const Json& messages, std::string_view key, std::string_view name) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (!messages[i].contains("content") || !messages[i].at("content").is_string()) {
            refuse(key, "[", i, "]: its content must be a string for --template ", name);
        }
    }
}

Json message(const char* role, const std::string& content) {
    return {{"role", role}, {"content", content}};
}

std::optional<std::string> contents_of(const std::filesystem::path& path, std::int64_t limit) {
    std::error_code unreadable;
    if (!std::filesystem::is_regular_file(path, unreadable)) return std::nullopt;
    return read_file(path, limit);
}

}  // namespace

ChatEncoder::ChatEncoder(const ChatLineOptions& options, const TokenizerFile& file,
                         const Tokenizer& tokenizer)
    : options_(options), tokenizer_(tokenizer) {
    if (!tokenizer.eos_id()) {
        fail(ExitCode::usage, "the tokenizer ", file.source, " has no end-of-document token; ",
             end_token_advice(file));
    }
    end_of_document_ = *tokenizer.eos_id();
    open_template(file);
}

void ChatEncoder::read_config(const std::filesystem::path& folder) {
    const std::filesystem::path path = folder / "tokenizer_config.json";
    Json config = Json::object();
    if (const auto contents = contents_of(path, max_settings_bytes)) {
        config = parse_json(*contents, path.string());
        bos_token_ = token_in_config(config, path.string(), "bos_token");
        eos_token_ = token_in_config(config, path.string(), "eos_token");
        if (options_.chat_template.empty())
            own_template_ = template_in_config(config, path.string());
        own_template_source_ = path.string() + ": chat_template";
    }
    marked_.emplace(tokenizer_, config, path.string());
    const std::filesystem::path jinja = folder / "chat_template.jinja";
    if (!options_.chat_template.empty()) return;
    if (auto contents = contents_of(jinja, max_template_bytes)) {
        own_template_ = *std::move(contents);
        own_template_source_ = jinja.string();
    }
}

void ChatEncoder::open_template(const TokenizerFile& file) {
    const std::string& given = options_.chat_template;
    read_config(std::filesystem::path(file.source).parent_path());
    const NamedTemplate* named = find_named_template(given);
    if (named != nullptr) {
        template_.emplace(named->text, text("--template ", given));
    } else if (!given.empty()) {
        std::error_code unreadable;
        if (!std::filesystem::exists(given, unreadable)) {
            fail(ExitCode::usage, "--template ", given,
                 ": neither a file nor a built-in template (", template_names(), ")");
        }
        template_.emplace(read_file(given, max_template_bytes), given);
    } else if (!own_template_.empty()) {
        template_.emplace(own_template_, own_template_source_);
    }
    const auto mark = [&](const std::optional<std::int32_t>& id) {
        return id ? tokenizer_.mark(*id) : std::string_view();
    };
    const auto add = [&](const char* name, std::string_view own, std::string_view otherwise) {
        const std::string_view token = own.empty() ? otherwise : own;
        if (!token.empty()) variables_[name] = token;
    };
    add("bos_token", bos_token_, named != nullptr ? named->bos_token : mark(tokenizer_.bos_id()));
    add("eos_token", eos_token_, named != nullptr ? named->eos_token : mark(tokenizer_.eos_id()));
}

std::string ChatEncoder::template_text() const {
    if (!template_) return "";
    std::string settings;
    const auto set = [&](std::string_view name, const std::string& own, std::string_view token) {
        if (own.empty() && !token.empty() && template_->mentions(name))
            settings += text("{% set ", name, " = '", token, "' %}");
    };
    if (const NamedTemplate* named = find_named_template(options_.chat_template)) {
        set("bos_token", bos_token_, named->bos_token);
        set("eos_token", eos_token_, named->eos_token);
    }
    return settings + template_->text();
}

std::optional<FaultyDocument> ChatEncoder::encode(Record& record, const CorpusFormat& format,
                                                  const std::string& place,
                                                  ChatDocument& document) const {
    CorpusFormat as_it_is = format;
    as_it_is.json_lines = false;
    std::string line;
    if (auto fault = take_document(record, as_it_is, line)) return fault;
    Json json;
    try {
        json_text_keys(line);  // its errors name the column
        json = parse_json(line, "the line");
    } catch (const Error& error) {
        return faulty_json(record, error);
    }
    try {
        document = document_of(text_of(json, place));
    } catch (const Error& error) {
        if (error.code() != ExitCode::bad_input) throw;
        return FaultyDocument{DocumentFault::conversation, error.what()};
    }
    return std::nullopt;
}

LearnedText ChatEncoder::text_of(const Json& line, const std::string& place) const {
    const std::string& prompt = options_.prompt_key;
    const std::string& response = options_.response_key;
    const std::string& messages = options_.messages_key;
    const bool pair = line.contains(prompt) || line.contains(response);
    if (line.contains(messages)) {
        if (pair) refuse("has '", messages, "' and '", prompt, "' or '", response, "'");
        if (!template_) {
            fail(ExitCode::usage, place,
                 ": a conversation needs a chat template, and there is none "
                 "next to the tokenizer; name one with --template FILE or ",
                 template_names());
        }
        check_messages(line.at(messages), messages);
        if (find_named_template(options_.chat_template) != nullptr)
            check_texts(line.at(messages), messages, options_.chat_template);
        return conversation_text(line.at(messages), messages);
    }
    if (!line.contains(prompt) || !line.contains(response)) {
        refuse("has neither '", messages, "' nor '", prompt, "' and '", response,
               "'; name its keys with --messages-key, or --prompt-key and --response-key");
    }
    return pair_text(line);
}

LearnedText ChatEncoder::pair_text(const Json& line) const {
    const std::string& prompt = text_under(line, options_.prompt_key);
    const std::string& response = text_under(line, options_.response_key);
    if (response.empty())
        refuse("'", options_.response_key, "' is empty: there is nothing to learn");
    if (!template_) return {prompt + response, {{prompt.size(), prompt.size() + response.size()}}};
    const Json messages = Json::array({message("user", prompt), message("assistant", response)});
    return conversation_text(messages, options_.messages_key);
}

LearnedText ChatEncoder::conversation_text(const Json& messages, std::string_view key) const {
    LearnedText text = render_learned(*template_, messages, variables_);
    const bool any = std::any_of(text.learned.begin(), text.learned.end(),
                                 [](const TextRange& part) { return part.end > part.begin; });
    if (!any) refuse("the template renders none of the assistant's text in '", key, "'");
    return text;
}

ChatDocument ChatEncoder::document_of(const LearnedText& text) const {
    LocatedIds located = marked_->encode(text.text);
    ChatDocument document;
    document.learned = learned_tokens(located.begins, text.learned);
    document.ids = std::move(located.ids);
    const bool ended = !document.ids.empty() && document.ids.back() == end_of_document_;
    if (!ended) {
        const bool learned = !text.learned.empty() && text.learned.back().end == text.text.size();
        document.ids.push_back(end_of_document_);
        document.learned.push_back(learned ? 1 : 0);
    }
    document.ends_inside = std::find(document.ids.begin(), std::prev(document.ids.end()),
                                     end_of_document_) != std::prev(document.ids.end());
    return document;
}

}  // namespace gptrain
