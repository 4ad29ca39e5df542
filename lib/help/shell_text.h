// Pieces of shell scripts that the completions have in common.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "help/command_help.h"

namespace gptrain {

/// In single quotes, for bash and zsh; fish reads them alike as long as there is no backslash.
std::string in_single_quotes(std::string_view word);

/// As a word of a command: in single quotes if it needs them.
std::string shell_word(std::string_view word);

/// "gpt_preprocess" of "gpt-preprocess"
std::string function_name(const std::string& program);

/// The names of all options, or only of those that take a value.
std::vector<std::string> option_names(const CommandHelp& command, bool with_value_only = false);

std::vector<std::string> command_names(const CommandHelp& program);

/// The first sentence of a description, for lists with short lines.
std::string brief(const std::string& description);

}  // namespace gptrain
