#include "chat/chat_lines.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "text/json_line.h"
#include "tokenizer/tokenizer_config.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_settings_bytes = std::int64_t{16} << 20;

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
        template_name_ = given;
    } else if (!given.empty()) {
        std::error_code unreadable;
        if (!std::filesystem::exists(given, unreadable)) {
            fail(ExitCode::usage, "--template ", given,
                 ": neither a file nor a built-in template (", template_names(), ")");
        }
        template_.emplace(read_file(given, max_template_bytes), given);
        template_name_ = given;
    } else if (!own_template_.empty()) {
        template_.emplace(own_template_, own_template_source_);
        template_name_ = own_template_source_;
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
                                                  ChatDocuments& documents) const {
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
    ChatLine read;
    try {
        read = read_chat_line(json, options_.keys);
    } catch (const Error& error) {
        return FaultyDocument{DocumentFault::conversation, error.what()};
    }
    try {
        for (const LearnedText& text : texts_of(read, place))
            documents.documents.push_back(document_of(text));
    } catch (const Error& error) {
        if (error.code() != ExitCode::bad_input) throw;
        const bool usable = !template_ || renders_answers(read.variables);
        return FaultyDocument{usable ? DocumentFault::conversation : DocumentFault::chat_template,
                              error.what()};
    }
    documents.unread_keys = std::move(read.unread_keys);
    return std::nullopt;
}

std::vector<LearnedText> ChatEncoder::texts_of(const ChatLine& line,
                                               const std::string& place) const {
    if (template_) return conversation_texts(line);
    if (!line.variables.empty())
        fail(ExitCode::bad_input, "has '", line.variables.begin().key(),
             "', which only a chat template can use; name one with --template");
    if (line.form == ChatLine::Form::conversation) {
        fail(ExitCode::usage, place,
             ": a conversation needs a chat template, and there is none "
             "next to the tokenizer; name one with --template FILE or ",
             template_names());
    }
    const auto& prompt = line.messages[0].at("content").get_ref<const std::string&>();
    const auto& response = line.messages[1].at("content").get_ref<const std::string&>();
    return {{prompt + response, {{prompt.size(), prompt.size() + response.size()}}, {1.0f}}};
}

std::vector<LearnedText> ChatEncoder::conversation_texts(const ChatLine& line) const {
    require_used(line, *template_, template_name_);
    Json variables = variables_;
    variables.update(line.variables);
    const std::vector<LearnedText> texts =
        render_learned(*template_, {line.messages, line.weights, line.source}, variables);
    const auto learns = [](const LearnedText& text) {
        return std::any_of(text.learned.begin(), text.learned.end(),
                           [](const TextRange& part) { return part.end > part.begin; });
    };
    if (std::any_of(texts.begin(), texts.end(), learns)) return texts;
    fail(ExitCode::bad_input, "the template renders none of the assistant's text in '", line.source,
         "'");
}

bool ChatEncoder::renders_answers(const Json& line_variables) const {
    Json variables = variables_;
    variables.update(line_variables);
    const Json plain = Json::array(
        {{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "b"}}});
    try {
        template_->render(plain, variables, false);
    } catch (const Error&) {
        return false;
    }
    return true;
}

ChatDocument ChatEncoder::document_of(const LearnedText& text) const {
    LocatedIds located = marked_->encode(text.text);
    ChatDocument document;
    document.learned = learned_tokens(located.begins, text.learned);
    if (std::any_of(text.weights.begin(), text.weights.end(), [](float w) { return w < 1; }))
        document.weights = token_weights(located.begins, text);
    document.ids = std::move(located.ids);
    const bool ended = !document.ids.empty() && document.ids.back() == end_of_document_;
    if (!ended) {
        const bool learned = !text.learned.empty() && text.learned.back().end == text.text.size();
        document.ids.push_back(end_of_document_);
        document.learned.push_back(learned ? 1 : 0);
        if (!document.weights.empty())
            document.weights.push_back(learned ? text.weights.back() : 0.0f);
    }
    document.ends_inside = std::find(document.ids.begin(), std::prev(document.ids.end()),
                                     end_of_document_) != std::prev(document.ids.end());
    return document;
}

}  // namespace gptrain
