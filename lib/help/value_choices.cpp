#include "help/value_choices.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "help/shell_text.h"

namespace gptrain {
namespace {

constexpr std::array path_words = {"FILE",       "DIR",       "PATH", "PREFIX",
                                   "CHECKPOINT", "TOKENIZER", ".yaml"};

bool names_path(std::string_view part) {
    return std::any_of(path_words.begin(), path_words.end(),
                       [&](std::string_view word) { return part.find(word) != part.npos; });
}

bool is_word(std::string_view part) {
    return std::none_of(part.begin(), part.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

}  // namespace

ValueChoices value_choices(const OptionHelp& option, const ProgramHelp& program) {
    ValueChoices choices;
    for (const std::string& name : option.names) {
        if (const auto found = program.words.find(name); found != program.words.end())
            choices.words = found->second;
        choices.files = choices.files || name.ends_with("-prefix");
    }
    for (std::string_view rest = option.value; !rest.empty();) {
        const std::string_view part = rest.substr(0, rest.find('|'));
        rest.remove_prefix(std::min(rest.size(), part.size() + 1));
        if (part == "COMMAND") {
            choices.words = command_names(program.command);
        } else if (names_path(part)) {
            choices.files = true;
        } else if (is_word(part)) {
            choices.words.emplace_back(part);
        }
    }
    return choices;
}

const OptionHelp* positional_of(const CommandHelp& command) {
    const auto found = std::find_if(command.options.begin(), command.options.end(),
                                    [](const OptionHelp& option) { return option.names.empty(); });
    return found == command.options.end() ? nullptr : &*found;
}

}  // namespace gptrain
