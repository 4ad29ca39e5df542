// gptrain help: the options as text, as a man page, or for completion in a shell.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "chat/chat_template.h"
#include "commands.h"
#include "hardware/load_profile.h"
#include "help/command_words.h"
#include "help/formats.h"
#include "spec/section_reader.h"
#include "spec/spec_keys.h"
#include "tasks/load_task.h"

namespace gptrain {
namespace {

constexpr auto files_section =
    R"(What is in an output directory:

  spec.yaml                the run spec with its defaults filled in
  metrics.jsonl            a JSON object for each logged step
  events.out.tfevents.*    the same for TensorBoard
  checkpoints/step-N/      the state after step N
  cache/                   the order of the samples)";

constexpr auto environment_section =
    R"(  OMP_NUM_THREADS         threads of a rank; default: its share of the cores
  GPTRAIN_CUDA_LIBS       folders with cuBLASLt and NCCL, where they are not found
  GPTRAIN_CUDA_ATTENTION  portable: the attention kernels for every GPU on H100 and H200 too
  GPTRAIN_NODE_CACHE      a folder for what the next start need not find out again, or off
  GPTRAIN_CONNECT_SECONDS how long ranks may take to find each other; default: 600
  GPTRAIN_CUDA_GRAPHS     1: record actions in graphs
  NO_COLOR                set: no colours on a terminal)";

constexpr auto see_also_section =
    R"(gpt-preprocess(1), mpirun(1), and the pages in share/doc/gptrain,
of which run-spec.md lists the keys of a run spec.)";

std::vector<std::string> strings(const std::vector<std::string_view>& words) {
    return {words.begin(), words.end()};
}

/// "model.num_layers=" and all other keys.
std::vector<std::string> setting_beginnings() {
    std::vector<std::string> keys = key_paths<RunSpec>();
    for (std::string& key : keys)
        key += '=';
    return keys;
}

std::vector<std::string> names_of_templates() {
    std::vector<std::string> names;
    for (const NamedTemplate& one : named_templates())
        names.emplace_back(one.name);
    return names;
}

ProgramHelp program_help(const CLI::App& app) {
    return {.command = command_help(app),
            .summary = "train GPT language models, and use them",
            .version = "gptrain " GPTRAIN_VERSION,
            .date = GPTRAIN_DATE,
            .sections = {{"Environment", environment_section},
                         {"Files", files_section},
                         {"See also", see_also_section}},
            .words = {{"--hardware", strings(profile_names())},
                      {"--task", strings(task_names())},
                      {"--template", names_of_templates()},
                      {"--set", setting_beginnings()},
                      {"--fix", setting_beginnings()}}};
}

ExitCode show_help_of(const CLI::App& app, const std::string& name) {
    const std::vector<std::string> names = shown_commands(app);
    if (std::find(names.begin(), names.end(), name) != names.end()) {
        print_raw(app.get_subcommand(name)->help(app.get_name()));
        return ExitCode::done;
    }
    if (const auto near = nearest(name, names))
        fail(ExitCode::usage, "help: there is no command ", name, "; nearest: ", *near);
    fail(ExitCode::usage, "help: there is no command ", name, "; the commands are ",
         choice_of({names.begin(), names.end()}));
}

}  // namespace

void add_help(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand(
        "help",
        "Show the options of all commands or of one, as text, as a man page or as a shell's "
        "completion");
    auto format = std::make_shared<std::string>();
    add_help_format(*command, *format);
    auto name = std::make_shared<std::string>();
    command->add_option("command", *name, "Only this command, like gptrain COMMAND --help")
        ->type_name("COMMAND")
        ->excludes("--format");
    command->final_callback([&app, &chosen, format, name] {
        if (!name->empty()) {
            chosen = [&app, name] { return show_help_of(app, *name); };
            return;
        }
        chosen = [&app, format] {
            print_raw(*format == "text" ? to_help_text(app)
                                        : to_format(*format, program_help(app)));
            return ExitCode::done;
        };
    });
}

}  // namespace gptrain
