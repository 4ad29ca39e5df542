// A program's command line as plain data. Man pages and shell completions are made of it, so that
// they cannot differ from --help.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): a library's
class App;
}

namespace gptrain {

/// An option, or a positional argument.
struct OptionHelp {
    std::vector<std::string> names;  ///< "--config"; empty for a positional argument
    std::string value;               ///< what it takes: "auto|never|DIR"; empty for a flag
    std::string description;         ///< without line ends
    std::string default_value;       ///< empty: none to show
    std::vector<std::string> needs;  ///< options without which it is an error
    bool required = false;
    bool repeats = false;  ///< it takes several values, or can be given several times
};

/// A titled part of a help text. Indented lines of the body are shown as they are; the others flow.
struct HelpSection {
    std::string title;
    std::string body;
};

/// A program or one of its subcommands.
struct CommandHelp {
    std::string name;
    std::string description;  ///< lines as in the body of a section
    std::vector<HelpSection> sections;
    std::vector<OptionHelp> options;
    std::vector<CommandHelp> commands;
};

/// The help of a command line parser. Its footer is read as sections: each begins with a line that
/// ends with a colon, and its body is indented by two spaces.
CommandHelp command_help(const CLI::App& app);

/// The contents of a man page and of completions: the command with its options, and the rest.
struct ProgramHelp {
    CommandHelp command;
    std::string summary;                ///< "train GPT language models"
    std::string version;                ///< "gptrain 0.2.0"
    std::string date;                   ///< of this version: "2026-11-22"
    std::vector<HelpSection> sections;  ///< at the end of the man page: Files, See also
    /// Words that complete the value of an option in any command, besides those in `value`:
    /// {"--hardware", {"cpu", ...}}. A word that ends with "=" is the beginning of a value.
    std::map<std::string, std::vector<std::string>> words;
};

}  // namespace gptrain
