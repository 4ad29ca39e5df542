// A program's help in the formats of other programs. Each returns the whole file.
#pragma once

#include <string>
#include <string_view>

#include "help/command_help.h"

namespace gptrain {

/// Adds --format, the option of a subcommand that prints the help of its program.
void add_help_format(CLI::App& command, std::string& format);

/// The output of --help for a program, also while a subcommand is running.
std::string to_help_text(const CLI::App& program);

/// The help as "man", "bash", "zsh" or "fish".
std::string to_format(std::string_view format, const ProgramHelp& program);

/// A man page of section 1, for man(7) macros.
std::string to_man_page(const ProgramHelp& program);

/// Complete subcommands, options, words that options take, and paths.
std::string to_bash_completion(const ProgramHelp& program);
std::string to_zsh_completion(const ProgramHelp& program);
std::string to_fish_completion(const ProgramHelp& program);

}  // namespace gptrain
