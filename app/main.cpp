// gptrain: one program that trains GPTs.
#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <new>
#include <string>

#include "base/log.h"
#include "base/signals.h"
#include "commands.h"
#include "version.h"

namespace {

constexpr auto description =
    "Trains GPTs. Without a subcommand it trains as the run spec says; SIGTERM and SIGUSR1 make it "
    "save\n"
    "after the current step and leave with exit code 75, and the same command goes on from there.";

constexpr auto footer =
    "Exit codes: 0 done; 1 a bug or device fault; 2 usage, run spec, or a device or memory that is "
    "not\n"
    "there; 3 a bad input file; 4 numerical failure; 5 input/output; 6 hang or lost rank; 75 saved "
    "on a\n"
    "signal or time limit, start again.";

int report(std::string_view message, gptrain::ExitCode code) {
    gptrain::error_line("gptrain", message);
    return static_cast<int>(code);
}

int run(int argc, char** argv) {
    CLI::App app(description, "gptrain");
    app.footer(footer);
    app.set_version_flag("--version", gptrain::version_text());
    app.require_subcommand(0, 1);
    gptrain::Command chosen;
    gptrain::add_train(app, chosen);
    gptrain::add_inspect(app, chosen);
    gptrain::add_generate(app, chosen);
    gptrain::add_eval(app, chosen);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        return report(std::string(error.what()) + " (gptrain --help)", gptrain::ExitCode::usage);
    }
    return static_cast<int>(chosen());
}

}  // namespace

int main(int argc, char** argv) {
    // Whoever reads our output may go away; a training run goes on.
    std::signal(SIGPIPE, SIG_IGN);
    // A file size limit (ulimit -f) then is a failed write, which is reported.
    std::signal(SIGXFSZ, SIG_IGN);
    gptrain::end_on_signals({.before = "gptrain: error: interrupted by ", .after = {}, .code = {}});
    try {
        return run(argc, argv);
    } catch (const gptrain::Error& error) {
        return report(error.what(), error.code());
    } catch (const std::bad_alloc&) {
        return report("not enough memory", gptrain::ExitCode::usage);
    } catch (const std::exception& error) {
        return report(std::string("internal error: ") + error.what(), gptrain::ExitCode::bug);
    }
}
