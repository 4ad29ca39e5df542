#include <set>

#include "base/join.h"
#include "help/formats.h"
#include "help/shell_text.h"
#include "help/value_choices.h"

namespace gptrain {
namespace {

/// The branch of `case` that completes what the choices allow.
std::string bash_branch(const std::string& pattern, const ValueChoices& choices) {
    std::string calls;
    if (!choices.words.empty())
        calls += text(" words ", in_single_quotes(joined(choices.words, " ")), ";");
    if (choices.files) calls += " paths;";
    return text("        ", pattern, ")", calls, " return ;;\n");
}

/// The values of a command's options. A value that nothing completes has a branch too: the word
/// after such an option is not an option.
std::string bash_values(const std::string& command, const CommandHelp& help,
                        const ProgramHelp& program) {
    std::string out;
    for (const OptionHelp& option : help.options) {
        if (option.value.empty() || option.names.empty()) continue;
        std::string pattern;
        for (const std::string& name : option.names)
            pattern += text(pattern.empty() ? "" : "|", command, ":", name);
        out += bash_branch(pattern, value_choices(option, program));
    }
    return out;
}

std::string bash_names(const std::string& command, const CommandHelp& help,
                       const ProgramHelp& program) {
    const OptionHelp* positional = positional_of(help);
    const ValueChoices choices = positional ? value_choices(*positional, program) : ValueChoices{};
    std::string out = text("        ", command, ":-*) words ",
                           in_single_quotes(joined(option_names(help), " ")), " ;;\n");
    if (const auto commands = command_names(help); !commands.empty()) {
        out += text("        ", command, ":*) words ", in_single_quotes(joined(commands, " ")),
                    " ;;\n");
    } else if (choices.any()) {
        out += bash_branch(command + ":*", choices);
    }
    return out;
}

/// All options with a value, whose next word is not a subcommand.
std::string value_options(const CommandHelp& program) {
    const auto own = option_names(program, true);
    return joined(std::set(own.begin(), own.end()), "|");
}

}  // namespace

std::string to_bash_completion(const ProgramHelp& program) {
    const CommandHelp& command = program.command;
    const std::string name = function_name(command.name);
    std::string values = bash_values("", command, program);
    std::string names = bash_names("", command, program);
    for (const CommandHelp& inner : command.commands) {
        values += bash_values(inner.name, inner, program);
        names += bash_names(inner.name, inner, program);
    }
    return text("# bash completion for ", program.version, ", made by ", command.name,
                " help --format bash\n_", name, R"(() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command= i
    words() {
        mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current")
        [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
    }
    paths() {
        local found
        mapfile -t found < <(compgen -f -- "$current")
        COMPREPLY+=("${found[@]}")
        compopt -o filenames
    }
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; ++i)); do
        case ${COMP_WORDS[i]} in
            )",
                value_options(command), R"() ((++i)) ;;
            )",
                joined(command_names(command), "|"), R"()
                command=${COMP_WORDS[i]}
                break
                ;;
        esac
    done
    case $command:$previous in
)",
                values, R"(    esac
    case $command:$current in
)",
                names, R"(    esac
}
complete -F _)",
                name, " ", command.name, "\n");
}

}  // namespace gptrain
