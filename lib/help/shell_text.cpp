#include "help/shell_text.h"

#include <algorithm>

namespace gptrain {

std::string in_single_quotes(std::string_view word) {
    std::string out = "'";
    for (const char c : word) {
        if (c == '\'') {
            out += "'\\''";
        } else {
            out += c;
        }
    }
    return out + "'";
}

std::string shell_word(std::string_view word) {
    constexpr std::string_view plain =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/.,:=@%+-";
    const bool as_is = !word.empty() && word.find_first_not_of(plain) == std::string_view::npos;
    return as_is ? std::string(word) : in_single_quotes(word);
}

std::string function_name(const std::string& program) {
    std::string name = program;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

std::vector<std::string> option_names(const CommandHelp& command, bool with_value_only) {
    std::vector<std::string> names;
    for (const OptionHelp& option : command.options) {
        if (with_value_only && option.value.empty()) continue;
        names.insert(names.end(), option.names.begin(), option.names.end());
    }
    return names;
}

std::vector<std::string> command_names(const CommandHelp& program) {
    std::vector<std::string> names;
    for (const CommandHelp& command : program.commands)
        names.push_back(command.name);
    return names;
}

std::string brief(const std::string& description) {
    std::string line = description.substr(0, description.find('\n'));
    const std::size_t end = std::min(line.find(". "), line.find("; "));
    return line.substr(0, end);
}

}  // namespace gptrain
