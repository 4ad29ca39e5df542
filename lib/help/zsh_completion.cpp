#include <string_view>

#include "base/join.h"
#include "help/formats.h"
#include "help/shell_text.h"
#include "help/value_choices.h"

namespace gptrain {
namespace {

/// Text in which brackets and colons stand for themselves (zsh's _arguments).
std::string zsh_plain(std::string_view words) {
    std::string out;
    for (const char c : words) {
        if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
        out += c;
    }
    return out;
}

/// ":what:how to complete it"; the space before the call passes the words unchanged.
std::string zsh_value(const OptionHelp& option, const ProgramHelp& program) {
    const ValueChoices choices = value_choices(option, program);
    std::string action = " ";
    if (!choices.words.empty()) {
        action = text(" _", function_name(program.command.name), "_words ",
                      choices.files ? "files " : "alone ", joined(choices.words, " "));
    } else if (choices.files) {
        action = "_files";
    }
    return text(":", zsh_plain(option.value), ":", action);
}

std::string zsh_option(const OptionHelp& option, const ProgramHelp& program) {
    const std::string value = option.value.empty() ? "" : zsh_value(option, program);
    if (option.names.empty())
        return text("        ", in_single_quotes((option.repeats ? "*" : "") + value), " \\\n");
    std::string out;
    for (const std::string& name : option.names) {
        out += text("        ",
                    in_single_quotes(text(option.repeats ? "*" : "", name, "[",
                                          zsh_plain(brief(option.description)), "]", value)),
                    " \\\n");
    }
    return out;
}

std::string zsh_options(const CommandHelp& command, const ProgramHelp& program) {
    std::string out;
    for (const OptionHelp& option : command.options)
        out += zsh_option(option, program);
    return out;
}

}  // namespace

std::string to_zsh_completion(const ProgramHelp& program) {
    const CommandHelp& command = program.command;
    const std::string name = text("_", function_name(command.name));
    std::string commands;
    std::string branches;
    for (const CommandHelp& inner : command.commands) {
        commands += text("        ",
                         in_single_quotes(text(inner.name, ":", brief(inner.description))), "\n");
        branches += text("        ", inner.name, ") _arguments \\\n", zsh_options(inner, program),
                         "        && ret=0 ;;\n");
    }
    return text("#compdef ", command.name, "\n# zsh completion for ", program.version, ", made by ",
                command.name, " help --format zsh\n", name, R"(_words() {
    local files=$1
    shift
    compadd -S '' -- ${(M)@:#*=} && return
    compadd -- $@
    [[ $files == alone ]] || _files
}
)",
                name, R"(() {
    local context state state_descr line ret=1
    typeset -A opt_args
    local -a commands=(
)",
                commands, R"(    )
    _arguments -C \
)",
                zsh_options(command, program), R"(        '1: :->command' '*:: :->rest' && ret=0
    if [[ $state == command ]]; then
        _describe command commands && ret=0
    elif [[ $state == rest ]]; then
        case $words[1] in
)",
                branches, R"(        esac
    fi
    return ret
}
)",
                name, " \"$@\"\n");
}

}  // namespace gptrain
