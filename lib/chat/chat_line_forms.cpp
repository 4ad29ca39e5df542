#include "chat/chat_line_forms.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace gptrain {
namespace {

constexpr const char* sharegpt_messages = "conversations";
constexpr const char* sharegpt_role = "from";
constexpr const char* sharegpt_content = "value";
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> sharegpt_roles = {
    {{"human", "user"},
     {"user", "user"},
     {"gpt", "assistant"},
     {"assistant", "assistant"},
     {"system", "system"},
     {"tool", "tool"},
     {"observation", "tool"}}};
/// Keys of a line that templates take as variables.
constexpr const char* variable_keys[] = {"tools", "documents"};
/// The key of an object of other variables.
constexpr std::string_view kwargs_key = "chat_template_kwargs";
/// Keys of a line that belong to a conversation but to none of these forms.
constexpr std::string_view refused_keys[] = {"functions", "history", "system", "system_prompt",
                                             "weight"};

/// Refuses a document. The caller adds its place.
[[noreturn]] void refuse(const auto&... parts) {
    fail(ExitCode::bad_input, parts...);
}

bool is_empty(const Json& value) {
    return value.is_null() || value == "" || (value.is_structured() && value.empty());
}

const std::string& text_under(const Json& line, const std::string& key) {
    if (!line.at(key).is_string()) refuse("the value of '", key, "' must be a string");
    return line.at(key).get_ref<const std::string&>();
}

/// Messages come from strangers' files, so this checks all that templates rely on.
void check_message(const Json& message, const std::string& name) {
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

Json message_of(std::string_view role, std::string_view content) {
    return {{"role", role}, {"content", content}};
}

/// The role that a role of ShareGPT stands for.
std::string_view standard_role(const Json& role, const std::string& name, std::string_view key) {
    std::string known;
    for (const auto& [word, standard] : sharegpt_roles) {
        if (role == word) return standard;
        known += text(known.empty() ? "" : ", ", word);
    }
    refuse(name, ": '", key, "' must be one of ", known);
}

/// The message with its keys renamed to "role" and "content".
Json renamed(const Json& given, const std::string& name, const ChatLineKeys& keys) {
    if (!given.is_object()) refuse(name, " must be an object with a role and a content");
    const bool sharegpt = !given.contains(keys.role) && given.contains(sharegpt_role);
    const std::string role = sharegpt ? sharegpt_role : keys.role;
    const std::string content = !given.contains(keys.content) && given.contains(sharegpt_content)
                                    ? sharegpt_content
                                    : keys.content;
    Json message = Json::object();
    for (const auto& [key, value] : given.items()) {
        if (key == role) {
            message["role"] = role == "role" ? value : Json(standard_role(value, name, role));
        } else {
            message[key == content ? "content" : key] = value;
        }
    }
    return message;
}

/// Takes the weight off a message. That of an assistant's is 1 where there is none.
float take_weight(Json& message, const std::string& name) {
    const auto found = message.find("weight");
    if (found == message.end()) return 1;
    const Json weight = *found;
    message.erase(found);
    if (weight.is_null()) return 1;
    if (!weight.is_number()) refuse(name, ": its 'weight' must be a number from 0 to 1");
    const auto value = weight.get<double>();
    // Smaller ones would be 0, or of little precision, in fp32.
    const bool fits = value == 0 || (value >= 1e-30 && value <= 1);
    if (!fits) refuse(name, ": its 'weight' is ", value, ", but must be from 0 to 1");
    if (message.at("role") == "assistant") return static_cast<float>(value);
    if (value > 0)
        refuse(name, ": 'weight' is ", value, ", but only the assistant's messages are learned");
    return 1;
}

void read_messages(const Json& given, const ChatLineKeys& keys, ChatLine& line) {
    if (!given.is_array()) refuse("the value of '", line.source, "' must be a list of messages");
    bool learned = false;
    for (std::size_t i = 0; i < given.size(); ++i) {
        const std::string name = text(line.source, "[", i, "]");
        Json message = renamed(given[i], name, keys);
        check_message(message, name);
        const bool says = message.at("role") == "assistant";
        const float weight = take_weight(message, name);
        if (weight < 1) line.weights[i] = weight;
        learned = learned || (says && weight > 0);
        line.messages.push_back(std::move(message));
    }
    if (learned) return;
    refuse("'", line.source, "' has no message of the assistant",
           line.weights.empty() ? "" : " with a weight above 0", ": there is nothing to learn");
}

/// The user's text and the assistant's.
void read_pair(const std::string& prompt, const std::string& response, std::string_view key,
               ChatLine& line) {
    if (response.empty()) refuse("'", key, "' is empty: there is nothing to learn");
    line.messages = Json::array({message_of("user", prompt), message_of("assistant", response)});
}

void read_alpaca(const Json& given, ChatLine& line) {
    std::string asked = text_under(given, "instruction");
    const bool has_input = given.contains("input") && !is_empty(given.at("input"));
    if (has_input) asked += text("\n", text_under(given, "input"));
    read_pair(asked, text_under(given, "output"), "output", line);
}

/// True if a line with messages also has the first words of the user as its prompt.
bool repeats_prompt(const Json& given, const ChatLineKeys& keys) {
    const Json& messages = given.at(keys.messages);
    if (given.contains(keys.response) || !messages.is_array()) return false;
    const auto first = std::ranges::find_if(messages, [&](const Json& message) {
        return message.is_object() && message.contains(keys.role) &&
               message.at(keys.role) == "user";
    });
    return first != messages.end() && first->contains(keys.content) &&
           first->at(keys.content) == given.at(keys.prompt);
}

/// Reads the keys of the line that are not `taken` by its form.
void read_other_keys(const Json& given, const std::set<std::string>& taken, ChatLine& line) {
    Json kwargs = Json::object();
    for (const auto& [key, value] : given.items()) {
        if (taken.contains(key) || is_empty(value)) continue;
        if (std::ranges::find(variable_keys, key) != std::end(variable_keys)) {
            if (!value.is_array()) refuse("the value of '", key, "' must be a list");
            line.variables[key] = value;
        } else if (key == kwargs_key) {
            check_template_kwargs(value, text("'", key, "'"));
            kwargs = value;
        } else if (std::ranges::find(refused_keys, key) != std::end(refused_keys)) {
            refuse("has '", key, "', which is not read; ",
                   key.starts_with("system") ? "make it the first message, with the role system"
                                             : "express it in the messages, or remove it");
        } else {
            line.unread_keys.insert(key);
        }
    }
    for (const auto& [key, value] : kwargs.items()) {
        if (line.variables.contains(key)) refuse("has '", key, "' twice");
        line.variables[key] = value;
    }
}

}  // namespace

ChatLine read_chat_line(const Json& given, const ChatLineKeys& keys) {
    const bool named = given.contains(keys.messages);
    const bool pair = given.contains(keys.prompt) || given.contains(keys.response);
    ChatLine line;
    line.source = named ? keys.messages : sharegpt_messages;
    if (named || (!pair && given.contains(sharegpt_messages))) {
        const bool repeats = pair && repeats_prompt(given, keys);
        if (pair && !repeats)
            refuse("has '", keys.messages, "' and '", keys.prompt, "' or '", keys.response, "'");
        read_messages(given.at(line.source), keys, line);
        read_other_keys(given, {line.source, repeats ? keys.prompt : line.source}, line);
    } else if (given.contains(keys.prompt) && given.contains(keys.response)) {
        line.form = ChatLine::Form::pair;
        line.source = keys.messages;
        read_pair(text_under(given, keys.prompt), text_under(given, keys.response), keys.response,
                  line);
        read_other_keys(given, {keys.prompt, keys.response}, line);
    } else if (!pair && given.contains("instruction") && given.contains("output")) {
        line.source = "instruction";
        read_alpaca(given, line);
        read_other_keys(given, {"instruction", "input", "output"}, line);
    } else {
        refuse("has neither '", keys.messages, "' nor '", keys.prompt, "' and '", keys.response,
               "'; name its keys with --messages-key, or --prompt-key and --response-key");
    }
    return line;
}

void require_used(const ChatLine& line, const ChatTemplate& chat_template, std::string_view name) {
    for (const auto& [key, value] : line.variables.items()) {
        if (chat_template.uses(key)) continue;
        refuse("has '", key, "', which the template ", name,
               " does not use; give one that does with --template, or remove them");
    }
    const bool texts_only = find_named_template(name) != nullptr;
    for (std::size_t i = 0; i < line.messages.size(); ++i) {
        const Json& message = line.messages[i];
        const bool is_text = message.contains("content") && message.at("content").is_string();
        if (texts_only && !is_text) {
            refuse(line.source, "[", i, "]: its content must be a string for --template ", name);
        }
        for (const auto& [key, value] : message.items()) {
            if (key == "role" || key == "content" || is_empty(value) || chat_template.uses(key))
                continue;
            refuse(line.source, "[", i, "]: has '", key, "', which the template ", name,
                   " does not use; give one that does with --template, or remove it");
        }
    }
}

}  // namespace gptrain
