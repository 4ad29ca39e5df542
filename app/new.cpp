// gptrain new: a run spec for a token set and a machine.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/join.h"
#include "base/log.h"
#include "base/output_file.h"
#include "commands.h"
#include "data/indexed_dataset.h"
#include "data/training_data.h"
#include "device.h"
#include "hardware.h"
#include "hardware/load_profile.h"
#include "help/option_checks.h"
#include "help/shell_text.h"
#include "lines.h"
#include "memory_headroom.h"
#include "model_ways.h"
#include "new_options.h"
#include "new_spec.h"
#include "planner/mesh_cost.h"
#include "spec/spec_keys.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {
namespace {

constexpr double min_hours = 1e-3;
constexpr double max_hours = 1e6;
constexpr double used_time = 0.9;  // a run that takes a smaller share of its hours has a reason

CLI::Validator hours_range() {
    return hours_between(min_hours, max_hours);
}

CLI::Validator ranks_range() {
    return whole_number(1, max_planned_ranks).description("");
}

std::int64_t vocabulary_of(const IndexedDataset& data, const std::string& tokenizer_path) {
    if (!tokenizer_path.empty()) {
        const Tokenizer tokenizer(tokenizer_path);
        if (data.meta()) {
            check_tokenizer(data.prefix(), *data.meta(),
                            {"--tokenizer " + tokenizer_path, text(tokenizer.fingerprint())});
        }
        return tokenizer.vocab_size();
    }
    if (data.meta()) return data.meta()->vocab_size;
    fail(ExitCode::usage, data.prefix().string(),
         ": no .meta.json names its tokenizer; give --tokenizer FILE");
}

/// Asks questions on a terminal.
class Questions {
public:
    /// Asks until `take` accepts the answer, which may be empty, without an Error.
    void ask(std::string_view question, const std::function<void(const std::string&)>& take) {
        for (;;) {
            print_raw(text(question, ": "));
            const auto line = lines_.next();
            if (!line)
                fail(ExitCode::usage, "new: the input ended before all questions were answered");
            try {
                return take(*line);
            } catch (const Error& error) {
                print(error.what());
            }
        }
    }

private:
    StdinLines lines_;
};

/// The answer as the option's check rewrites it, if it accepts the answer.
std::string accepted(const std::string& answer, const CLI::Validator& check) {
    std::string word = answer;
    if (const std::string fault = check(word); !fault.empty()) fail(ExitCode::usage, fault);
    return word;
}

/// Error if there are no such token files, or the size of their vocabulary is not recorded.
void check_data(const NewOptions& options) {
    if (options.data.empty()) fail(ExitCode::usage, "a path is needed");
    require_token_files(options.data);
    const IndexedDataset data(options.data);
    vocabulary_of(data, tokenizer_of(options, data));
}

/// Without --data, asks on a terminal for everything that the command line leaves out. Each answer
/// is checked at once.
void ask_for_the_rest(NewOptions& options) {
    Questions questions;
    // Takes an answer into a copy, which replaces the options if `check` accepts it.
    const auto ask = [&](const std::string& question, const auto& set, const auto& check) {
        questions.ask(question, [&](const std::string& answer) {
            NewOptions answered = options;
            set(answered, answer);
            check(answered);
            options = std::move(answered);
        });
    };
    const auto check_hardware = [](const NewOptions& answered) { hardware_of(answered); };
    ask(
        "Token files to train on (their path without .bin)",
        [](NewOptions& to, const std::string& answer) { to.data = answer; }, check_data);
    if (!options.hours && !options.tokens) {
        ask(
            text("Hours to train (empty: ", good_passes, " passes over the data)"),
            [](NewOptions& to, const std::string& answer) {
                if (!answer.empty()) to.hours = parse_double(accepted(answer, hours_range()));
            },
            [](const NewOptions&) {});
    }
    if (options.device.empty() && options.hardware.empty()) {
        ask(
            "Device, cpu or cuda (empty: what this machine has)",
            [](NewOptions& to, const std::string& answer) { to.device = answer; },
            [](const NewOptions& from) { return parse_device(from.device); });
    }
    if (options.hardware.empty() && options.device != "cpu") {
        ask(
            text("Hardware: ", joined(profile_names()), " or a file (empty: this CPU)"),
            [](NewOptions& to, const std::string& answer) { to.hardware = answer; },
            check_hardware);
    }
    if (!options.ranks) {
        ask(
            "Ranks (empty: 1)",
            [](NewOptions& to, const std::string& answer) {
                to.ranks = answer.empty() ? 1 : parse_int(accepted(answer, ranks_range()));
            },
            check_hardware);
    }
    if (options.output.empty()) {
        ask(
            "File to write (empty: named after the data)",
            [](NewOptions& to, const std::string& answer) { to.output = answer; },
            [](const NewOptions& answered) { check_output(output_of(answered)); });
    }
}

/// The inputs that determine the size of a run.
struct NewRun {
    RunSpec base;
    HardwareProfile hardware;
    double headroom = 0;    ///< share of the memory to leave free
    std::string tokenizer;  ///< its path, or empty
    RunBudget budget;
};

NewRun read_new_run(const NewOptions& options, const std::string& name) {
    require_token_files(options.data);
    const IndexedDataset data(options.data);
    NewRun run = {.base = {},
                  .hardware = hardware_of(options),
                  .headroom = headroom_share(options.memory_headroom),
                  .tokenizer = tokenizer_of(options, data),
                  .budget = {.hours = options.hours, .tokens = options.tokens}};
    run.base.name = name;
    run.base.device = run.hardware.kind;
    run.base.data.train = {{.prefix = options.data}};
    run.base.data.split = split_of(data);
    run.base.model.vocab_size = vocabulary_of(data, run.tokenizer);
    if (options.experts) run.base.model.experts = {.count = *options.experts, .per_token = 2};
    run.budget.data_tokens = count_training_tokens(run.base.data).value_or(0);
    return run;
}

SizedRun size_on_ranks(const NewRun& run, std::int64_t ranks) {
    const bool cuda = run.hardware.kind == DeviceChoice::cuda;
    const BackendMemory needs = backend_memory(cuda);
    return size_run(run.base, run.budget,
                    {.target = {.world_size = ranks,
                                .cuda = cuda,
                                .dry_run = true,
                                .ranks_per_node = run.hardware.node.devices},
                     .needs = needs,
                     .hardware = run.hardware,
                     .capacity = usable_memory(run.hardware, ranks, run.headroom)});
}

void print_new_run(const SizedRun& run, const NewOptions& options, const std::string& hardware,
                   std::int64_t data_tokens) {
    if (run.tokens / good_passes > data_tokens) {
        warn("the run reads its ", grouped(data_tokens), " training tokens more than ", good_passes,
             " times; more data would help");
    }
    if (run.tokens < run.active) {
        warn("the run trains on ", grouped(run.tokens), " tokens, fewer than the ",
             grouped(run.active), " parameters of the smallest model, and will learn little; ",
             "give it more data", options.hours ? " or more hours" : "");
    }
    print(options.output, ": ", parameters_text(run), ", ", grouped(run.tokens), " tokens, about ",
          human_time(run.estimate.days * 86400), " on ", hardware);
    print("the model's size is limited by ", limit_text(run));
    const double hours = run.estimate.days * 24;
    if (options.hours && hours < used_time * *options.hours) {
        print("the run takes ", human_time(3600 * hours), " of the ",
              human_time(3600 * *options.hours), " given: it reads its ", grouped(data_tokens),
              " training tokens ", good_passes,
              " times, and would learn little from more passes; with more data it would be longer",
              run.limit == SizeLimit::tokens ? " and its model larger" : "");
    }
    const std::int64_t ranks = options.rank_count();
    print("train with: ", ranks > 1 ? text("mpirun -n ", ranks, " ") : "", "gptrain train ",
          shell_word(options.output));
}

ExitCode write_new_spec(NewOptions options) {
    if (!options.model.empty()) return write_tuning_spec(std::move(options));
    if (options.data.empty()) ask_for_the_rest(options);
    const std::string name = name_of_run(options);
    options.output = output_of(options);
    check_output(options.output);
    const NewRun question = read_new_run(options, name);
    print_notes(options.hardware, question.hardware);
    const SizedRun run = size_on_ranks(question, options.rank_count());
    write_output_file(options.output, new_run_spec(run, {.command = shown_command(options),
                                                         .prefix = options.data,
                                                         .tokenizer = question.tokenizer,
                                                         .hardware = question.hardware.name,
                                                         .data_tokens = question.budget.data_tokens,
                                                         .ranks = options.rank_count()}));
    print_new_run(run, options, question.hardware.name, question.budget.data_tokens);
    return ExitCode::done;
}

void add_data_options(CLI::App& command, NewOptions& options) {
    command
        .add_option("--data", options.data,
                    "Token files to train on; without them, asks for everything on a terminal")
        ->type_name("PREFIX");
    command
        .add_option("--tokenizer", options.tokenizer,
                    "The tokenizer that made the token files; default: the one next to them")
        ->type_name("TOKENIZER");
    CLI::Option* hours =
        command
            .add_option("--hours", options.hours, "Hours of training, as estimated, such as 0.5h")
            ->type_name("H")
            ->transform(hours_range());
    command
        .add_option(
            "--tokens", options.tokens,
            "Tokens to train on, such as 300M or 20B; default: four passes over the data, or "
            "what --hours allows")
        ->type_name("N")
        ->transform(count_between(1, std::int64_t{1} << 50))
        ->excludes(hours);
    command
        .add_option(
            "--experts", options.experts,
            "A mixture of so many experts in each layer, of which a token uses two, as wide "
            "together as the one layer of a model without them")
        ->type_name("N")
        ->check(whole_number(2, expert_count.high).description(""));
}

void add_model_options(CLI::App& command, NewOptions& options) {
    CLI::Option* model =
        add_model(
            command, options.model, options.host_memory,
            "A Hugging Face model folder to fine-tune, of which config.json is enough; prints "
            "the ways in which the machine can train it")
            ->excludes("--hours", "--experts")
            ->needs("--data");
    command
        .add_option("--way", options.way,
                    text("How to train that model: ", way_words(),
                         "; default: the first of these that fits"))
        ->type_name("WAY")
        ->needs(model);
}

void add_machine_options(CLI::App& command, NewOptions& options) {
    command
        .add_option("--device", options.device,
                    "Device to train on; default: that of --hardware, or what this machine has")
        ->type_name("cpu|cuda");
    command.add_option("--ranks", options.ranks, "Number of ranks; default: 1")
        ->type_name("N")
        ->check(ranks_range());
    command
        .add_option("--hardware", options.hardware,
                    "A built-in profile (h100-sxm, ...) or a file like those of "
                    "configs/hardware; default: the CPU of this machine")
        ->type_name("NAME|FILE");
    add_memory_headroom(command, options.memory_headroom);
}

}  // namespace

void add_new(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand("new",
                                           "Write a run spec for token files and a machine, with a "
                                           "model of the right size or one that exists");
    auto options = std::make_shared<NewOptions>();
    add_data_options(*command, *options);
    add_model_options(*command, *options);
    add_machine_options(*command, *options);
    command
        ->add_option("--output", options->output,
                     "The run spec to write, which must not exist; default: named after the data")
        ->type_name("FILE.yaml");
    command->final_callback([&chosen, options] {
        if (options->data.empty() && !(stdin_is_terminal() && stdout_is_terminal()))
            throw CLI::RequiredError("new: --data");
        chosen = [options] { return write_new_spec(*options); };
    });
}

}  // namespace gptrain
