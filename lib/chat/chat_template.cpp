#include "chat/chat_template.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace gptrain {
namespace {

constexpr std::array<NamedTemplate, 4> templates = {{
    {.name = "chatml",
     .text = "{% for message in messages %}"
             "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
             "{% endfor %}"
             "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
     .bos_token = "",
     .eos_token = "<|im_end|>",
     .end_of_turn = "<|im_end|>"},
    {.name = "llama3",
     .text = "{{ bos_token }}{% for message in messages %}"
             "{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}"
             "{{ message.content | trim + '<|eot_id|>' }}{% endfor %}"
             "{% if add_generation_prompt %}"
             "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
     .bos_token = "<|begin_of_text|>",
     .eos_token = "<|eot_id|>",
     .end_of_turn = "<|eot_id|>"},
    {.name = "mistral",
     .text = "{{ bos_token }}{% set ns = namespace(system='') %}{% for message in messages %}"
             "{% if message.role == 'system' %}{% set ns.system = message.content + '\\n\\n' %}"
             "{% elif message.role == 'user' %}"
             "{{ '[INST] ' + ns.system + message.content + ' [/INST]' }}{% set ns.system = '' %}"
             "{% else %}{{ ' ' + message.content + eos_token }}{% endif %}{% endfor %}",
     .bos_token = "<s>",
     .eos_token = "</s>",
     .end_of_turn = "</s>"},
    {.name = "plain",
     .text = "{% for message in messages %}{% if message.role == 'system' %}"
             "{{ message.content + '\\n\\n' }}{% else %}"
             "{{ message.role | capitalize + ': ' + message.content + '\\n' }}"
             "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}",
     .bos_token = "",
     .eos_token = "",
     .end_of_turn = "\nUser:"},
}};

bool has_generation(const TemplateBody& body) {
    return std::any_of(body.begin(), body.end(), [](const TemplateNode& node) {
        return node.kind == TemplateNode::Kind::generation ||
               std::any_of(node.bodies.begin(), node.bodies.end(), has_generation);
    });
}

/// Inserts the names, attributes and texts of an expression.
void add_names(const TemplateExpr& expr, std::set<std::string, std::less<>>& names) {
    using Kind = TemplateExpr::Kind;
    if (expr.kind == Kind::name || expr.kind == Kind::attribute) names.insert(expr.name);
    if (expr.kind == Kind::literal && expr.value.is_string())
        names.insert(std::string(expr.value.string()));
    for (const auto& part : expr.parts)
        if (part != nullptr) add_names(*part, names);
}

void add_names(const TemplateBody& body, std::set<std::string, std::less<>>& names) {
    for (const TemplateNode& node : body) {
        if (node.expr != nullptr) add_names(*node.expr, names);
        for (const auto& condition : node.conditions)
            if (condition != nullptr) add_names(*condition, names);
        for (const TemplateBody& inner : node.bodies)
            add_names(inner, names);
    }
}

/// Names under which messages hold reasoning; templates read the first two.
constexpr std::array<const char*, 3> reasoning_keys = {"reasoning_content", "thinking",
                                                       "reasoning"};

/// The message, with its reasoning under both names.
TemplateValue message_value(const TemplateRun& run, const Json& message) {
    const auto* key = std::find_if(
        reasoning_keys.begin(), reasoning_keys.end(),
        [&](const char* one) { return message.contains(one) && !message.at(one).is_null(); });
    if (key == reasoning_keys.end()) return value_of(run, message);
    const Json reasoning = message.at(*key);
    Json named = {{"thinking", reasoning}};
    named.update(message);
    named["reasoning_content"] = reasoning;
    return value_of(run, named);
}

}  // namespace

std::span<const NamedTemplate> named_templates() {
    return templates;
}

const NamedTemplate* find_named_template(std::string_view name) {
    for (const NamedTemplate& one : templates)
        if (one.name == name) return &one;
    return nullptr;
}

std::string template_names() {
    std::string names;
    for (const NamedTemplate& one : templates)
        names += text(names.empty() ? "" : ", ", one.name);
    return names;
}

const NamedTemplate* find_template_text(std::string_view text) {
    for (const NamedTemplate& one : templates)
        if (text.ends_with(one.text)) return &one;
    return nullptr;
}

ChatTemplate::ChatTemplate(std::string_view text, std::string source)
    : source_(std::move(source)), text_(text) {
    if (std::ssize(text) > max_template_bytes)
        fail(ExitCode::bad_input, source_, ": a chat template of more than ", max_template_bytes,
             " bytes");
    const std::size_t invalid = find_invalid_utf8(text);
    if (invalid != text.npos)
        fail(ExitCode::bad_input, source_, ": the template is not UTF-8 at byte ", invalid);
    body_ = parse_template(text, source_);
    add_names(body_, names_);
}

std::string ChatTemplate::render(const Json& messages, const Json& variables,
                                 bool add_generation_prompt) const {
    return render(messages, variables, add_generation_prompt, nullptr);
}

std::string ChatTemplate::render(const Json& messages, const Json& variables,
                                 std::vector<TextRange>& generated) const {
    return render(messages, variables, false, &generated);
}

bool ChatTemplate::uses(std::string_view name) const {
    const bool reasoning = std::ranges::find(reasoning_keys, name) != reasoning_keys.end();
    if (!reasoning) return names_.contains(name);
    return names_.contains(reasoning_keys[0]) || names_.contains(reasoning_keys[1]);
}

bool ChatTemplate::marks_generation() const {
    return has_generation(body_);
}

std::string ChatTemplate::render(const Json& messages, const Json& variables,
                                 bool add_generation_prompt,
                                 std::vector<TextRange>* generated) const {
    TemplateRun run(source_);
    std::vector<TemplateValue> values;
    for (const Json& message : messages)
        values.push_back(message_value(run, message));
    TemplateVariables all = {{"messages", list_value(run, std::move(values))},
                             {"add_generation_prompt", boolean_value(add_generation_prompt)}};
    for (const auto& [name, value] : variables.items())
        all.emplace_back(name, value_of(run, value));
    for (const char* name : {"tools", "documents"})
        if (!variables.contains(name)) all.emplace_back(name, none_value());
    return render_template(run, body_, all, generated);
}

void check_template_kwargs(const Json& kwargs, std::string_view name) {
    if (!kwargs.is_object())
        fail(ExitCode::bad_input, name, " must be an object, such as {\"enable_thinking\": false}");
    for (const char* key : {"messages", "add_generation_prompt"})
        if (kwargs.contains(key))
            fail(ExitCode::bad_input, name, " must not have '", key, "', which gptrain gives");
}

void require_used_kwargs(const ChatTemplate& chat_template, const Json& kwargs,
                         std::string_view name) {
    for (const auto& [key, value] : kwargs.items())
        if (!chat_template.uses(key))
            fail(ExitCode::bad_input, name, " has '", key,
                 "', which the chat template does not use; leave it out");
}

std::string template_in_config(const Json& config, const std::string& source) {
    const JsonReader reader(config, source);
    if (!reader.has("chat_template") || config.at("chat_template").is_null()) return "";
    if (!config.at("chat_template").is_array()) return reader.string("chat_template");
    for (const Json& one : reader.array("chat_template")) {
        const JsonReader named(one, source + ": chat_template");
        if (named.string("name") == "default") return named.string("template");
    }
    fail(ExitCode::bad_input, source, ": 'chat_template' has several templates, none of which is ",
         "named default; pass one with --template FILE");
}

}  // namespace gptrain
