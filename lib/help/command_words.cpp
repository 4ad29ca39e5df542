#include "help/command_words.h"

#include <CLI/CLI.hpp>

#include "base/text.h"

namespace gptrain {
namespace {

/// "--promt" of "--promt=x".
std::string option_name(const std::string& word) {
    return word.substr(0, word.find('='));
}

std::vector<std::string> option_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames())
            names.push_back("--" + name);
    return names;
}

}  // namespace

std::vector<std::string> shown_commands(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command :
         app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
        names.push_back(command->get_name());
    return names;
}

std::string unexpected_words(const CLI::App& app) {
    const std::vector<std::string> words = app.remaining(true);
    const auto chosen = app.get_subcommands();
    const std::string& first = words.front();
    if (first.starts_with("--")) {
        const std::string name = option_name(first);
        if (const auto near = nearest(name, option_names(chosen.empty() ? app : *chosen.front())))
            return text("there is no option ", name, "; nearest: ", *near);
    } else if (chosen.empty()) {
        if (const auto near = nearest(first, shown_commands(app)))
            return text("there is no command ", first, "; nearest: ", *near);
    }
    std::string message = words.size() == 1 ? "The following argument was not expected:"
                                            : "The following arguments were not expected:";
    for (const std::string& word : words)
        message += ' ' + word;
    return message;
}

std::string parse_error_text(const CLI::ParseError& error) {
    const std::string message = error.what();
    const std::size_t end = message.find(": At Most 1 required");
    return end == std::string::npos ? message : message.substr(0, end) + ": give it once";
}

std::string misplaced_option(const CLI::App& app) {
    if (app.get_subcommands().empty()) return "";
    for (const CLI::Option* option : app.get_options()) {
        if (option->count() > 0)
            return text("put ", option->get_name(), " after ",
                        app.get_subcommands().front()->get_name());
    }
    return "";
}

}  // namespace gptrain
