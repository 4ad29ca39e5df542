#include <string_view>

#include "base/join.h"
#include "help/formats.h"
#include "help/shell_text.h"
#include "help/value_choices.h"

namespace gptrain {
namespace {

/// "-l config", "-s h" or "-o name".
std::string fish_name(std::string_view name) {
    if (name.starts_with("--")) return text(" -l ", name.substr(2));
    return text(" -s ", name.substr(1));
}

std::string fish_values(const OptionHelp& option, const ProgramHelp& program) {
    const ValueChoices choices = value_choices(option, program);
    std::string out = choices.files ? " -F" : " -f";
    if (!choices.words.empty()) out += text(" -a ", in_single_quotes(joined(choices.words, " ")));
    return out;
}

std::string fish_options(const CommandHelp& command, const ProgramHelp& program,
                         const std::string& condition) {
    std::string out;
    for (const OptionHelp& option : command.options) {
        out += text("complete -c ", program.command.name, " -n ", in_single_quotes(condition));
        for (const std::string& name : option.names)
            out += fish_name(name);
        if (!option.names.empty() && !option.value.empty()) out += " -r";
        if (!option.value.empty()) out += fish_values(option, program);
        if (!option.names.empty()) out += text(" -d ", in_single_quotes(brief(option.description)));
        out += "\n";
    }
    return out;
}

}  // namespace

std::string to_fish_completion(const ProgramHelp& program) {
    const CommandHelp& command = program.command;
    const std::string commands = joined(command_names(command), " ");
    const std::string none = "not __fish_seen_subcommand_from " + commands;
    std::string out = text("# fish completion for ", program.version, ", made by ", command.name,
                           " help --format fish\ncomplete -c ", command.name, " -f\n");
    for (const CommandHelp& inner : command.commands) {
        out += text("complete -c ", command.name, " -n ", in_single_quotes(none), " -a ",
                    inner.name, " -d ", in_single_quotes(brief(inner.description)), "\n");
    }
    out += fish_options(command, program, none);
    for (const CommandHelp& inner : command.commands)
        out += fish_options(inner, program, "__fish_seen_subcommand_from " + inner.name);
    return out;
}

}  // namespace gptrain
