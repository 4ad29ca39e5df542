// gptrain plan: the settings with which a model trains fastest, on hardware that need not be here.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/output_file.h"
#include "calibration.h"
#include "commands.h"
#include "device.h"
#include "help/option_checks.h"
#include "model_ways.h"
#include "plan_problem.h"
#include "search/search_picture.h"
#include "search/table_text.h"
#include "spec/spec_keys.h"

namespace gptrain {
namespace {

constexpr std::int64_t table_rows = 10;

/// With the batch that is searched, or of several the spec's.
OwnSettings own_settings(const SearchContext& context, const SearchSpace& space) {
    OwnSettings own;
    try {
        Choices choices = choices_of(context.spec);
        if (space.global_batch.size() == 1) choices.global_batch_size = space.global_batch.front();
        own.found = evaluate(context, choices);
    } catch (const Error& error) {
        if (error.code() == ExitCode::bug) throw;
        own.refused = error.what();
    }
    return own;
}

void plan_mesh(const PlanOptions& options, const TrainingProblem& training, std::int64_t ranks) {
    const PlanProblem& problem = training.problem;
    const SearchContext context = context_of(problem, ranks);
    const SearchReport report = {.result = search(context, training.space, table_rows),
                                 .own = own_settings(context, training.space),
                                 .global_batches = training.space.global_batch};
    print_raw(to_text(report, context));
    if (!options.json.empty()) write_output_file(options.json, to_json(report, context));
    const std::vector<Found>& best = report.result.best;
    if (best.empty()) {
        fail(ExitCode::usage, options.config, ": ", why_nothing(report.result, context),
             "; use more ranks (--world-size) or limit fewer keys (--fix)");
    }
    if (!options.picture.empty()) write_output_file(options.picture, to_svg(report, context));
    if (options.max_days) {
        const double days = best.front().estimate.days;
        const std::string taken = text(": the fastest take ", decimals(days, 2));
        if (days > *options.max_days) {
            print("no settings train in ", *options.max_days, " days", taken,
                  "; use more ranks (--world-size)");
        } else {
            print("the fastest train in ", *options.max_days, " days", taken);
        }
    }
    if (!options.write.empty()) write_best(options, best.front());
}

/// The fastest settings of each number of ranks.
void plan_scaling(const PlanOptions& options, const TrainingProblem& training,
                  const std::vector<std::int64_t>& sizes) {
    if (!options.json.empty() || !options.write.empty() || !options.picture.empty()) {
        fail(ExitCode::usage, "--world-size ", options.world_size,
             ": --write, --picture and --json take one number of ranks");
    }
    print(scaling_head());
    const bool batches_differ = training.space.global_batch.size() > 1;
    std::optional<std::int64_t> enough;  // the fewest that are
    for (const std::int64_t ranks : sizes) {
        const SearchContext context = context_of(training.problem, ranks);
        const SearchResult result = search(context, training.space, 1);
        print(scaling_row(result, context, batches_differ));
        if (result.best.empty() || !options.max_days) continue;
        if (result.best.front().estimate.days <= *options.max_days)
            enough = std::min(enough.value_or(ranks), ranks);
    }
    if (!options.max_days) return;
    if (enough) {
        print("the fewest ranks for ", *options.max_days, " days: ", *enough);
    } else {
        print("none of these train in ", *options.max_days, " days");
    }
}

ExitCode plan_training(const PlanOptions& options) {
    check_written_spec(options);
    if (!options.picture.empty() && !is_stdout(options.picture) &&
        !options.picture.ends_with(".svg")) {
        fail(ExitCode::usage, "--picture ", options.picture, ": give a name that ends with .svg");
    }
    const std::vector<std::int64_t> sizes =
        parse_sizes("--world-size", options.world_size, rank_counts);
    const TrainingProblem training = read_training_problem(options);
    if (sizes.size() == 1) {
        plan_mesh(options, training, sizes.front());
    } else {
        plan_scaling(options, training, sizes);
    }
    return ExitCode::done;
}

ExitCode plan_ways(const PlanOptions& options) {
    const std::vector<std::int64_t> sizes =
        options.world_size.empty() ? std::vector<std::int64_t>{1}
                                   : parse_sizes("--world-size", options.world_size, rank_counts);
    if (sizes.size() > 1) {
        fail(ExitCode::usage, "--world-size ", options.world_size,
             ": --model takes one number of ranks");
    }
    const WaysAnswer answer = try_ways({.model = options.model,
                                        .host_memory = options.host_memory,
                                        .hardware = read_hardware(options.hardware),
                                        .headroom = headroom_share(options.memory_headroom),
                                        .ranks = sizes.front(),
                                        .seq_length = options.seq_length},
                                       "");
    print_raw(answer.table);
    return ExitCode::done;
}

void add_problem_options(CLI::App& command, PlanOptions& options) {
    command.add_option("--config", options.config, "Run spec (YAML)")->type_name("RUN.yaml");
    add_settings(command, options.settings);
    command
        .add_option("--world-size", options.world_size,
                    "Ranks; 64..4096 shows the fastest for 64, 128, ... 4096 ranks")
        ->type_name("N|N..M");
    command
        .add_option("--hardware", options.hardware,
                    "A built-in profile (h100-sxm, ...) or a file like those of "
                    "configs/hardware")
        ->type_name("NAME|FILE");
    command
        .add_option("--fix", options.fixed,
                    "Limit a key to one value or to several, such as parallel.tensor=4,8; "
                    "repeatable")
        ->type_name("KEY.PATH=VALUE")
        ->allow_extra_args(false);
    add_memory_headroom(command, options.memory_headroom);
    command.add_option("--json", options.json, "Write the result as JSON")->type_name("FILE");
}

void add_training_options(CLI::App& command, PlanOptions& options) {
    command
        .add_option("--global-batch", options.global_batch,
                    "Global batch sizes: N, N,M,... or 512..2048 (512, 1024, 2048). The number of "
                    "steps is scaled to keep the number of samples. Default: the spec's")
        ->type_name("SIZES");
    command
        .add_option("--max-days", options.max_days,
                    "Report whether all steps take at most D days, or the smallest number of ranks "
                    "that achieves it")
        ->type_name("D")
        ->check(number_between(1e-6, 1e6));
    command
        .add_option("--write", options.write,
                    "Write the run spec with the fastest settings to a new file")
        ->type_name("FILE.yaml");
    command
        .add_option("--picture", options.picture,
                    "Draw time against memory of the candidates, and the ranks of the fastest mesh "
                    "on their nodes")
        ->type_name("FILE.svg");
}

void add_inference_options(CLI::App& command, PlanOptions& options) {
    constexpr std::int64_t max_tokens = std::int64_t{1} << 24;
    CLI::Option* inference =
        command
            .add_flag("--inference", options.inference,
                      "Find the meshes with which generate answers fastest, and those with the "
                      "most tokens per second")
            ->excludes("--global-batch", "--max-days", "--write", "--picture");
    command.add_option("--prompt", options.prompt, "Tokens of a prompt")
        ->type_name("P")
        ->check(whole_number(1, max_tokens))
        ->needs(inference);
    command.add_option("--tokens", options.tokens, "Tokens of an answer")
        ->type_name("T")
        ->check(whole_number(1, max_tokens))
        ->needs(inference);
    command
        .add_option("--batch", options.batch,
                    "Texts that a copy of the model continues at a time; default: 1, 2, 4, ... as "
                    "far as they fit")
        ->type_name("SIZES")
        ->needs(inference);
    command
        .add_option("--max-latency", options.max_latency,
                    "Show only meshes that answer within S seconds")
        ->type_name("S")
        ->check(number_between(1e-6, 1e6))
        ->needs(inference);
}

void add_measure_options(CLI::App& command, PlanOptions& options) {
    CLI::Option* measure =
        command
            .add_option("--measure", options.measure,
                        "Train a few steps with each of the K fastest on the ranks started "
                        "(mpirun, srun), and rank them by the measured time; after an interruption "
                        "the same command continues")
            ->type_name("K")
            ->check(whole_number(1, 1000))
            ->excludes("--max-days", "--picture", "--inference");
    command
        .add_option("--learn", options.learn,
                    "Write the profile with a correction factor fitted to the measured times")
        ->type_name("FILE")
        ->needs(measure);
}

void add_model_options(CLI::App& command, PlanOptions& options) {
    CLI::Option* model =
        add_model(command, options.model, options.host_memory,
                  "A Hugging Face model folder, of which config.json is enough: shows the ways in "
                  "which the hardware can train it")
            ->excludes("--config", "--set", "--fix", "--global-batch", "--max-days", "--write",
                       "--picture", "--json", "--inference", "--measure", "--calibrate");
    command
        .add_option("--seq-length", options.seq_length,
                    text("Tokens of a sample; default: ", tuning_length,
                         ", or the model's positions if those are fewer"))
        ->type_name("T")
        ->check(whole_number(1, token_count.high))
        ->needs(model);
}

void require_options(const PlanOptions& options) {
    if (!options.model.empty()) {
        if (options.hardware.empty()) throw CLI::RequiredError("plan --model: --hardware");
        return;
    }
    if (options.config.empty()) throw CLI::RequiredError("plan: --config");
    if (options.hardware.empty()) throw CLI::RequiredError("plan: --hardware");
    if (options.measure > 0) return;
    if (options.world_size.empty()) throw CLI::RequiredError("plan: --world-size");
    if (!options.inference) return;
    if (options.prompt == 0) throw CLI::RequiredError("plan --inference: --prompt");
    if (options.tokens == 0) throw CLI::RequiredError("plan --inference: --tokens");
}

void add_calibrate_options(CLI::App& command, PlanOptions& options) {
    CLI::Option* calibrate =
        command
            .add_option("--calibrate", options.calibrate,
                        "Measure the machine on which the ranks run, and write its profile")
            ->type_name("FILE")
            ->excludes("--config", "--set", "--world-size", "--hardware", "--fix", "--global-batch",
                       "--memory-headroom", "--max-days", "--write", "--picture", "--json",
                       "--inference", "--measure");
    command
        .add_option("--device", options.device,
                    "Device that --calibrate measures; default: what this machine has")
        ->type_name("cpu|cuda")
        ->needs(calibrate);
}

}  // namespace

void add_plan(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand(
        "plan", "Find the mesh and the settings that train a model fastest on given hardware");
    auto options = std::make_shared<PlanOptions>();
    add_problem_options(*command, *options);
    add_training_options(*command, *options);
    add_inference_options(*command, *options);
    add_measure_options(*command, *options);
    add_calibrate_options(*command, *options);
    add_model_options(*command, *options);
    command->final_callback([&chosen, options] {
        if (!options->calibrate.empty()) {
            const DeviceChoice device = parse_device(options->device);
            chosen = [options, device] { return run_calibrate(options->calibrate, device); };
            return;
        }
        require_options(*options);
        chosen = [options] {
            if (!options->model.empty()) return plan_ways(*options);
            if (options->inference) return plan_inference(*options);
            return options->measure > 0 ? plan_measure(*options) : plan_training(*options);
        };
    });
}

}  // namespace gptrain
