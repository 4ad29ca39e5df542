// Words of a command line that are in the wrong place or misspelt.
#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): a library's
class App;
class ParseError;
}  // namespace CLI

namespace gptrain {

/// The commands that --help lists.
std::vector<std::string> shown_commands(const CLI::App& app);

/// The error for words that nothing takes: "there is no command genrate; nearest: generate", the
/// same for an option, or else which words were not expected.
std::string unexpected_words(const CLI::App& app);

/// The error as CLI11 words it, but "--seed: give it once" for an option that was given twice.
std::string parse_error_text(const CLI::ParseError& error);

/// The error for an option of the program that stands before a command: "put --config after train".
/// Empty if there is none.
std::string misplaced_option(const CLI::App& app);

}  // namespace gptrain
