// The subcommands of gptrain. Each adds its options to the command line; the chosen one runs after
// the whole line has been parsed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gptrain {

/// The action that the command line selects.
using Command = std::function<ExitCode()>;

/// Training and --dry-run: `train`, and the program without a subcommand.
void add_train(CLI::App& app, Command& chosen);
void add_new(CLI::App& app, Command& chosen);
void add_inspect(CLI::App& app, Command& chosen);
void add_generate(CLI::App& app, Command& chosen);
void add_eval(CLI::App& app, Command& chosen);
void add_serve(CLI::App& app, Command& chosen);
void add_import(CLI::App& app, Command& chosen);
void add_export(CLI::App& app, Command& chosen);
void add_plan(CLI::App& app, Command& chosen);
void add_report(CLI::App& app, Command& chosen);
/// Adds `help`, which shows the options of all commands that were added before it is run.
void add_help(CLI::App& app, Command& chosen);

/// For the program itself, not shown to users: the command of a child process, which checks
/// kernels that may fail (child_checks.h).
void add_check_attention(CLI::App& app, Command& chosen);

/// Adds --set, the option of all commands that read a run spec.
void add_settings(CLI::App& command, std::vector<std::string>& settings);

}  // namespace gptrain
