// gptrain: one program that trains GPT language models.
#include <CLI/CLI.hpp>
#include <exception>
#include <sstream>
#include <string>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/signals.h"
#include "commands.h"
#include "cuda/runtime/probe.h"
#include "help/command_words.h"
#include "version.h"

namespace {

constexpr auto description =
    "Trains GPT language models: gptrain train RUN.yaml, or without the word train: gptrain "
    "--config\n"
    "RUN.yaml. SIGTERM, SIGUSR1, SIGHUP and the first Ctrl-C make it save after the current step "
    "and\n"
    "exit with code 75; the same command resumes.";

constexpr auto footer =
    "Exit status:\n"
    "  0 done; 1 a bug; 2 usage, run spec, missing device or memory;\n"
    "  3 a bad input file; 4 numerical failure; 5 input/output; 6 hang, lost rank or failed GPU;\n"
    "  75 saved on a signal or time limit, run again";

int report(std::string_view message, gptrain::ExitCode code) {
    gptrain::error_line("gptrain", message);
    return static_cast<int>(code);
}

/// " (gptrain plan --help)": the help of the command that was given.
std::string help_hint(const CLI::App& app) {
    const auto commands = app.get_subcommands();
    return gptrain::text(" (gptrain ", commands.empty() ? "" : commands.front()->get_name() + " ",
                         "--help)");
}

/// The error for a missing argument. It lists the possible values, because the argument's name
/// ("path") does not.
std::string missing_argument_message(const CLI::App& app, const CLI::RequiredError& error) {
    for (const CLI::App* command : app.get_subcommands()) {
        for (const CLI::Option* option : command->get_options()) {
            if (!option->get_positional() || !option->empty()) continue;
            return gptrain::text(command->get_name(), ": give ", option->get_type_name(),
                                 help_hint(app));
        }
    }
    return error.what() + help_hint(app);
}

/// The error for words that no option or command accepts.
std::string extras_message(const CLI::App& app) {
    const std::string first = app.remaining(true).front();
    const bool takes_spec = app.get_subcommands().empty() && app.count("--config") == 0;
    const std::string message = takes_spec && gptrain::named_yaml(first)
                                    ? gptrain::text("did you mean gptrain train ", first, "?")
                                    : gptrain::unexpected_words(app);
    return message + help_hint(app);
}

int run(int argc, char** argv) {
    CLI::App app(description, "gptrain");
    app.footer(footer);
    app.set_version_flag("--version", gptrain::version_report);
    app.require_subcommand(0, 1);
    gptrain::Command chosen;
    gptrain::add_train(app, chosen);
    gptrain::add_new(app, chosen);
    gptrain::add_inspect(app, chosen);
    gptrain::add_generate(app, chosen);
    gptrain::add_eval(app, chosen);
    gptrain::add_serve(app, chosen);
    gptrain::add_import(app, chosen);
    gptrain::add_export(app, chosen);
    gptrain::add_plan(app, chosen);
    gptrain::add_report(app, chosen);
    gptrain::add_help(app, chosen);
    gptrain::add_check_attention(app, chosen);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& help) {
        std::ostringstream output;
        app.exit(help, output);
        gptrain::print_raw(output.str());
        return static_cast<int>(gptrain::ExitCode::done);
    } catch (const CLI::RequiredError& error) {
        if (!app.remaining(true).empty())
            return report(extras_message(app), gptrain::ExitCode::usage);
        return report(missing_argument_message(app, error), gptrain::ExitCode::usage);
    } catch (const CLI::ExtrasError&) {
        return report(extras_message(app), gptrain::ExitCode::usage);
    } catch (const CLI::ParseError& error) {
        return report(gptrain::parse_error_text(error) + help_hint(app), gptrain::ExitCode::usage);
    }
    if (const std::string option = gptrain::misplaced_option(app); !option.empty())
        return report(option, gptrain::ExitCode::usage);
    const gptrain::ExitCode code = chosen();
    if (code == gptrain::ExitCode::done) gptrain::check_output();
    return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
    gptrain::end_on_signals({.before = "gptrain: error: interrupted by ", .after = {}, .code = {}});
    gptrain::end_on_lost_mapping("gptrain: error: ");
    try {
        gptrain::start_process("gptrain");
        gptrain::cuda::set_cuda_environment();
        return run(argc, argv);
    } catch (const std::exception& error) {
        const gptrain::Failure failure = gptrain::failure_of(error);
        return report(failure.message, failure.code);
    }
}
