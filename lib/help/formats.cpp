#include "help/formats.h"

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace gptrain {

void add_help_format(CLI::App& command, std::string& format) {
    format = "text";
    command
        .add_option(
            "--format", format,
            "text: as --help; man: a man page; bash, zsh, fish: a completion for that shell")
        ->type_name("text|man|bash|zsh|fish")
        ->check(CLI::IsMember({"text", "man", "bash", "zsh", "fish"}).description(""))
        ->capture_default_str();
}

std::string to_help_text(const CLI::App& program) {
    return program.get_formatter()->make_help(&program, program.get_name(),
                                              CLI::AppFormatMode::Normal);
}

std::string to_format(std::string_view format, const ProgramHelp& program) {
    if (format == "man") return to_man_page(program);
    if (format == "bash") return to_bash_completion(program);
    if (format == "zsh") return to_zsh_completion(program);
    GPTRAIN_CHECK(format == "fish", format);
    return to_fish_completion(program);
}

}  // namespace gptrain
