#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/output_file.h"
#include "commands.h"
#include "dry_run.h"
#include "hardware.h"
#include "help/option_checks.h"
#include "memory_headroom.h"
#include "metrics/run_directory.h"
#include "planner/mesh_cost.h"
#include "planner/message_buffers.h"
#include "spec/make_plan.h"
#include "spec/quantised_checks.h"
#include "spec/unused_keys.h"
#include "start.h"
#include "timeline.h"
#include "train/choose_recipe.h"
#include "train/choose_resets.h"
#include "train/resume.h"
#include "train/trainer.h"
#include "watch/stop_signals.h"

namespace gptrain {
namespace {

struct TrainCommand {
    std::string config;
    std::vector<std::string> settings;
    std::string resume = "auto";
    std::string inject;
    bool dry_run = false;
    std::optional<std::int64_t> world_size;
    std::string timeline;
    std::string device_memory;
    std::string memory_headroom = std::string(default_headroom);
    std::optional<std::string> hardware;
    std::string json;
    bool check = false;
};

std::optional<std::int64_t> device_memory_of(const std::string& word) {
    if (word.empty()) return std::nullopt;
    const std::int64_t bytes = parse_size("--device-memory", word, "80GB");
    if (word.ends_with("GB")) {
        print("--device-memory ", word, " is ", human_bytes(bytes),
              "; a card sold with 80 GB gives a program 79.1 to 79.3 GiB");
    }
    return bytes;
}

ResumeChoice resume_choice(const std::string& word) {
    if (word == "auto") return {ResumeChoice::Kind::automatic, {}};
    if (word == "never") return {ResumeChoice::Kind::never, {}};
    return {ResumeChoice::Kind::from, word};
}

void check_timeline(const std::string& path, const Device& device) {
    check_timeline_path(path);
    if (device.cuda) {
        fail(ExitCode::usage, "--timeline ", path,
             ": a real run's timeline can be measured only on the CPU; use --dry-run to "
             "simulate it, or device: cpu");
    }
}

/// `spec.yaml` in an output directory that was moved or copied names the earlier one.
void check_same_directory(const TrainCommand& options, const RunSpec& spec) {
    const std::filesystem::path config = options.config;
    const RunPaths here = {folder_of(config)};
    const bool given = std::any_of(options.settings.begin(), options.settings.end(),
                                   [](const auto& set) { return set.starts_with("output_dir="); });
    std::error_code missing;
    if (given || config.filename() != here.spec().filename() ||
        !std::filesystem::is_directory(here.checkpoints(), missing) ||
        !std::filesystem::exists(here.metrics(), missing) ||
        std::filesystem::equivalent(here.folder, spec.output_dir, missing))
        return;
    fail(ExitCode::usage, config.string(), ": output_dir is ", spec.output_dir.string(),
         ", but the checkpoints next to this file are in ", here.folder.string(),
         "; to use these, add --set output_dir=", here.folder.string(),
         ", to use those, give the spec.yaml there");
}

void warn_of_unused_keys(const RunSpec& spec) {
    for (const std::string& warning : unused_keys(spec))
        warn(warning);
}

RunSpec load_training(const TrainCommand& options) {
    RunSpec spec = load_run_spec(options.config, options.settings);
    if (!options.inject.empty()) load_faults(options.inject, spec);
    check_frozen_format(spec);
    return spec;
}

ExitCode train_as_rank(const TrainCommand& options, Ranks& ranks, StartTimes& times) {
    const MpiSession& session = ranks.session();
    times.begin(StartPhase::agree);
    ranks.check_same_program();
    RunSpec spec;
    session.run_on_all([&] { spec = load_training(options); });
    session.run_on_first([&] {
        check_same_directory(options, spec);
        warn_of_unused_keys(spec);
    });
    const ResumeChoice resume = resume_choice(options.resume);
    choose_resets(spec, resume, session);
    choose_recipe(spec, resume, session);
    const std::optional<ReadAhead> ahead = read_ahead(resume, spec, session);
    const Start common = start(ranks, spec, RunPaths{spec.output_dir}.cache(), &times);
    const Device& device = common.device;
    RunPlan plan = common.plan;
    require_fp8_blocks(device, plan, session);
    times.begin(StartPhase::connect);
    const std::string device_name = device.cuda ? "GPU" : ranks.cpu_name();
    Observers observers(
        ranks.watch(spec, plan.mesh, device.cuda, RunPaths{spec.output_dir}.nccl_report()));
    std::optional<StepRecorder> recorder;
    if (!options.timeline.empty()) {
        session.run_on_all([&] { check_timeline(options.timeline, device); });
        recorder.emplace(measured_timeline(options.timeline, spec.name, plan.mesh, session));
        observers.comm.add(*recorder);
        observers.actions.add(*recorder);
    }
    std::optional<PeerAxes> saved;
    if (plan.peer_messages)
        saved = saved_peer_axes(resume, RunPaths{spec.output_dir}.checkpoints(), session);
    const Mesh mesh = open_training_mesh(device, session, plan, observers.comm, saved);
    const ExitCode code =
        train(spec, plan, resume, {*device.backend, mesh, session, observers, device_name, times});
    if (recorder && session.rank() == 0) warn_if_not_written(*recorder, options.timeline);
    return code;
}

/// The number of ranks that a dry run assumes.
std::int64_t dry_run_ranks(const TrainCommand& options, const ParallelSpec& parallel) {
    if (options.world_size) return *options.world_size;
    const std::int64_t ranks = min_ranks(parallel);
    if (ranks > max_planned_ranks) {
        fail(ExitCode::usage, "parallel: the mesh needs ", ranks,
             " ranks; a dry run supports at most ", max_planned_ranks);
    }
    if (ranks > 1) {
        print("planned for ", ranks, " ranks, the minimum for the mesh (--world-size N for more)");
    }
    return ranks;
}

void dry_run(const TrainCommand& options) {
    RunSpec spec = load_training(options);
    choose_resets(spec);
    choose_recipe(spec, resume_choice(options.resume));
    check_output_file(options.json, "--json");
    DryRunOptions dry;
    dry.timeline = options.timeline;
    dry.device_memory = device_memory_of(options.device_memory);
    dry.memory_headroom = headroom_share(options.memory_headroom);
    dry.json = options.json;
    if (options.hardware) dry.hardware = read_hardware(*options.hardware);
    dry.check = options.check;
    const PlanTarget target = {
        .world_size = dry_run_ranks(options, spec.parallel),
        .cuda = plan_for_cuda(spec.device, dry.hardware ? &*dry.hardware : nullptr),
        .dry_run = true,
        .ranks_per_node = dry.hardware ? dry.hardware->node.devices : usual_ranks_per_node};
    if (target.cuda && dry.hardware && !dry.device_memory) {
        dry.device_memory = static_cast<std::int64_t>(dry.hardware->device.memory);
        dry.device_memory_name = dry.hardware->name;
    }
    const RunPlan plan = make_plan(spec, target);
    warn_of_unused_keys(spec);
    if (!plan.int8_warning.empty()) warn(plan.int8_warning);
    print_dry_run(spec, plan, target, dry);
}

ExitCode run_training(const TrainCommand& options) {
    if (options.dry_run) {
        dry_run(options);
        return ExitCode::done;
    }
    StartTimes times;
    end_run_on_signals();
    Ranks ranks;
    return ranks.run([&] { return train_as_rank(options, ranks, times); });
}

}  // namespace

void add_settings(CLI::App& command, std::vector<std::string>& settings) {
    command.add_option("--set", settings, "Override a key of the run spec; repeatable")
        ->type_name("KEY.PATH=VALUE")
        ->allow_extra_args(false);
}

namespace {

/// The options of training. `config`: the names of the run spec's.
void add_training_options(CLI::App& app, const std::string& config, TrainCommand& options) {
    app.add_option(config, options.config, "Run spec (YAML)")->type_name("RUN.yaml");
    add_settings(app, options.settings);
    app.add_option("--resume", options.resume,
                   "auto: the newest valid checkpoint of the output directory, otherwise a fresh "
                   "start; never: a fresh start, refused if checkpoints exist; "
                   "DIR: a checkpoint or an output directory")
        ->type_name("auto|never|DIR")
        ->capture_default_str();
    app.add_option("--inject", options.inject, "Make the faults in this file happen, for tests")
        ->type_name("FILE");
    CLI::Option* dry_run =
        app.add_flag("--dry-run", options.dry_run,
                     "Estimate the run's memory and work; needs no data, tokenizer or device");
    app.add_option("--world-size", options.world_size,
                   "Ranks that a dry run assumes; default: the minimum for the mesh")
        ->type_name("N")
        ->check(whole_number(1, max_planned_ranks))
        ->needs(dry_run);
    app.add_option("--device-memory", options.device_memory,
                   "Check whether the run fits on devices of this size, such as 80GB or 80GiB, one "
                   "per rank; default: check whether a CPU run fits on this machine now")
        ->type_name("SIZE")
        ->needs(dry_run);
    add_memory_headroom(app, options.memory_headroom)->needs(dry_run);
    app.add_flag("--check", options.check,
                 "Exit with code 2 if the run does not fit into the memory")
        ->needs(dry_run);
    CLI::Option* hardware =
        app.add_option("--hardware", options.hardware,
                       "Estimate the time of a step on this hardware: a built-in profile "
                       "(h100-sxm, ...) or a file like those of configs/hardware")
            ->type_name("NAME|FILE")
            ->needs(dry_run);
    app.add_option("--json", options.json, "Write the estimate for --hardware as JSON")
        ->type_name("FILE")
        ->needs(hardware);
    app.add_option("--timeline", options.timeline,
                   "Write one pipeline step as SVG (.svg) or Chrome trace (.json): measured, or "
                   "simulated with --dry-run")
        ->type_name("FILE");
}

/// Runs the training when `app` is what the command line selects.
void add_training(CLI::App& app, const std::string& config, Command& chosen) {
    auto options = std::make_shared<TrainCommand>();
    add_training_options(app, config, *options);
    app.final_callback([&app, &chosen, options] {
        if (!app.get_subcommands().empty()) return;
        if (options->config.empty()) throw CLI::RequiredError("--config");
        chosen = [options] { return run_training(*options); };
    });
}

}  // namespace

void add_train(CLI::App& app, Command& chosen) {
    add_training(app, "--config", chosen);
    add_training(*app.add_subcommand("train", "Train as a run spec describes"), "spec,--config",
                 chosen);
}

}  // namespace gptrain
