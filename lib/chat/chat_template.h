// Turns a conversation into the text that a chat model continues, with the templates that published
// models come with: the part of Jinja that they use (docs/chat.md).
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/template_render.h"

namespace gptrain {

/// A built-in template that a user can name.
struct NamedTemplate {
    std::string_view name;
    std::string_view text;
    std::string_view bos_token;
    std::string_view eos_token;
    std::string_view end_of_turn;  ///< what the model writes after its answer
};

/// chatml, llama3, mistral, plain.
std::span<const NamedTemplate> named_templates();
/// The template of that name, or null.
const NamedTemplate* find_named_template(std::string_view name);
/// "chatml, llama3, ..."
std::string template_names();
/// The named template that `text` ends with, as after statements that set its tokens, or null.
const NamedTemplate* find_template_text(std::string_view text);

/// The file of a chat template, as models are shared and in checkpoints.
constexpr std::string_view chat_template_name = "chat_template.jinja";

class ChatTemplate {
public:
    /// `source` names it in errors. Error (bad_input) that names the construct and the line if it
    /// uses more of Jinja than gptrain has.
    ChatTemplate(std::string_view text, std::string source);

    /// The text of a conversation. `messages`: a list of {"role": ..., "content": ...}. Reasoning
    /// under one of the names reasoning_content, thinking and reasoning has all that templates
    /// read, the first two, as in transformers. `variables`: an object of what else the template
    /// may use, such as bos_token and eos_token; tools and documents are none without it. With
    /// `add_generation_prompt` the text ends where the assistant's answer begins. Errors
    /// (bad_input) are those of render_template, and a text that is not UTF-8.
    std::string render(const Json& messages, const Json& variables,
                       bool add_generation_prompt) const;

    /// The text of a whole conversation; `generated` receives the parts that {% generation %}
    /// encloses.
    std::string render(const Json& messages, const Json& variables,
                       std::vector<TextRange>& generated) const;
    /// True if the template marks what the assistant writes with {% generation %}.
    bool marks_generation() const;

    const std::string& text() const { return text_; }
    /// True if the template uses a value of that name: a variable, an attribute or a key. Reasoning
    /// has several names.
    bool uses(std::string_view name) const;
    /// True if the template's text contains the word.
    bool mentions(std::string_view word) const { return text_.find(word) != text_.npos; }

private:
    std::string render(const Json& messages, const Json& variables, bool add_generation_prompt,
                       std::vector<TextRange>* generated) const;

    std::string source_;
    std::string text_;
    TemplateBody body_;
    std::set<std::string, std::less<>> names_;  ///< that its expressions have
};

/// Checks variables that a user gives to a template (chat_template_kwargs), and calls them `name`
/// in its Errors (bad_input): an object, without what gptrain itself gives.
void check_template_kwargs(const Json& kwargs, std::string_view name);

/// Error (bad_input) if the template uses no value of one of these names.
void require_used_kwargs(const ChatTemplate& chat_template, const Json& kwargs,
                         std::string_view name);

/// The template in a tokenizer_config.json: its chat_template, or of several the one named default;
/// empty if it has none. Error (bad_input) if it has another form.
std::string template_in_config(const Json& config, const std::string& source);

/// Size limit of a template's file.
constexpr std::int64_t max_template_bytes = std::int64_t{1} << 20;

}  // namespace gptrain
