// How a shell completes the value of an option.
#pragma once

#include <string>
#include <vector>

#include "help/command_help.h"

namespace gptrain {

struct ValueChoices {
    std::vector<std::string> words;
    bool files = false;  ///< a path may follow, too

    bool any() const { return files || !words.empty(); }
};

/// In a value "auto|never|DIR" the parts in lower case are words, and the others name what to give:
/// COMMAND is a subcommand of the program.
ValueChoices value_choices(const OptionHelp& option, const ProgramHelp& program);

/// The positional argument, or null.
const OptionHelp* positional_of(const CommandHelp& command);

}  // namespace gptrain
