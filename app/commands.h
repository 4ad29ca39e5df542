// The subcommands of gptrain. Each adds its options to the command line; what it parses is run
// after the whole line was read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace CLI {
class App;
}

namespace gptrain {

/// What the command line chose to do.
using Command = std::function<ExitCode()>;

/// Training and --dry-run: the program without a subcommand.
void add_train(CLI::App& app, Command& chosen);
void add_inspect(CLI::App& app, Command& chosen);
void add_generate(CLI::App& app, Command& chosen);
void add_eval(CLI::App& app, Command& chosen);

/// --set, the option of all that reads a run spec.
void add_settings(CLI::App& command, std::vector<std::string>& settings);

}  // namespace gptrain
