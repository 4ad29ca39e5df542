#include "help/command_help.h"

#include <CLI/CLI.hpp>
#include <sstream>

namespace gptrain {
namespace {

/// On one line, with single spaces.
std::string flowing(const std::string& lines) {
    std::istringstream words(lines);
    std::string out;
    for (std::string word; words >> word;)
        out += (out.empty() ? "" : " ") + word;
    return out;
}

/// Without empty lines at its ends.
std::string trimmed(const std::string& lines) {
    const std::size_t begin = lines.find_first_not_of('\n');
    if (begin == lines.npos) return "";
    return lines.substr(begin, lines.find_last_not_of('\n') + 1 - begin);
}

std::vector<HelpSection> sections_of(const std::string& footer) {
    std::vector<HelpSection> sections;
    std::istringstream lines(footer);
    for (std::string line; std::getline(lines, line);) {
        if (line.ends_with(':') && !line.starts_with(' ')) {
            sections.push_back({line.substr(0, line.size() - 1), ""});
        } else if (!sections.empty()) {
            sections.back().body += line.substr(std::min<std::size_t>(2, line.size())) + "\n";
        }
    }
    for (HelpSection& section : sections)
        section.body = trimmed(section.body);
    return sections;
}

OptionHelp option_help(const CLI::Option& option) {
    OptionHelp help;
    for (const std::string& name : option.get_snames())
        help.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames())
        help.names.push_back("--" + name);
    // A validator adds its own description behind a colon.
    const std::string type = option.get_type_name();
    if (option.get_items_expected_max() > 0) help.value = type.substr(0, type.find(':'));
    help.description = flowing(option.get_description());
    help.default_value = option.get_default_str();
    for (const CLI::Option* other : option.get_needs())
        help.needs.push_back(other->get_name());
    help.required = option.get_required();
    help.repeats = option.get_items_expected_max() > 1;
    return help;
}

}  // namespace

CommandHelp command_help(const CLI::App& app) {
    CommandHelp help = {.name = app.get_name(),
                        .description = trimmed(app.get_description()),
                        .sections = sections_of(app.get_footer()),
                        .options = {},
                        .commands = {}};
    for (const CLI::Option* option : app.get_options()) {
        help.options.push_back(option_help(*option));
        if (!option->get_positional() || help.options.back().names.empty()) continue;
        // It is also a positional argument, and neither form is required on its own.
        help.options.back().required = false;
        help.options.push_back(help.options.back());
        help.options.back().names.clear();
    }
    for (const CLI::App* command :
         app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
        help.commands.push_back(command_help(*command));
    return help;
}

}  // namespace gptrain
