// PREFIX.chat_template.jinja: the chat template (text/chat_template.h) that made texts of the
// conversations in token files. Token files without conversations, and those of older programs,
// have none.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace gptrain {

/// A template and its file; both empty if there is none.
struct ChatTemplateFile {
    std::string text;
    std::filesystem::path path;
};

/// PREFIX.chat_template.jinja.
std::filesystem::path template_path(const std::filesystem::path& prefix);

/// Reads PREFIX.chat_template.jinja. Error (bad_input) that names it: it is too large, or no
/// template that gptrain can use.
ChatTemplateFile read_template(const std::filesystem::path& prefix);

/// The template of all the token files that have one. Error (bad_input) that names two files if
/// they differ.
ChatTemplateFile common_template(std::span<const std::filesystem::path> prefixes);

}  // namespace gptrain
