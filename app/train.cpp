#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "commands.h"
#include "device.h"
#include "dry_run.h"
#include "ranks.h"
#include "schedule/stage_plan.h"
#include "train/run_directory.h"
#include "train/trainer.h"

namespace gptrain {
namespace {

struct Options {
    std::string config;
    std::vector<std::string> settings;
    std::string resume = "auto";
    bool dry_run = false;
    std::int64_t world_size = 1;
    std::string timeline;
};

ResumeChoice resume_choice(const std::string& word) {
    if (word == "auto") return {ResumeChoice::Kind::automatic, {}};
    if (word == "never") return {ResumeChoice::Kind::never, {}};
    return {ResumeChoice::Kind::from, word};
}

/// A rank on a CPU without others waits for nothing that could hang.
double hang_seconds(const RunSpec& spec, const Device& device, const MpiSession& session) {
    if (session.size() == 1 && !device.cuda) return 0;
    return static_cast<double>(spec.faults.hang_seconds);
}

ExitCode train_as_rank(const Options& options, Ranks& ranks) {
    const MpiSession& session = ranks.session();
    RunSpec spec;
    session.together([&] { spec = load_run_spec(options.config, options.settings); });
    ranks.check_alike(to_yaml(spec));
    ranks.share_cores();
    const Device device = open_device(spec.device, session, RunPaths{spec.output_dir}.cache());
    RunPlan plan;
    session.together(
        [&] { plan = make_plan(spec, {.world_size = session.size(), .cuda = device.cuda}); });
    ranks.set_mesh(plan.mesh);
    Watchdog& watchdog =
        ranks.watch({.hang_seconds = hang_seconds(spec, device, session), .mesh = plan.mesh});
    CommTotals totals;
    StragglerWatch stragglers;
    CommListeners listeners;
    listeners.add(totals);
    listeners.add(watchdog.progress());
    listeners.add(stragglers);
    ActionListeners actions;
    actions.add(watchdog.progress());
    const Mesh mesh = open_mesh(device, session, plan.mesh, mesh_links(plan), listeners);
    return train(spec, plan, resume_choice(options.resume),
                 {*device.backend, mesh, session, totals, actions, watchdog, stragglers});
}

ExitCode run_training(const Options& options) {
    if (options.dry_run) {
        const RunSpec spec = load_run_spec(options.config, options.settings);
        const PlanTarget target = {
            .world_size = options.world_size, .cuda = would_use_cuda(spec.device), .dry_run = true};
        print_dry_run(spec, make_plan(spec, target), options.timeline);
        return ExitCode::done;
    }
    Ranks ranks;
    return ranks.run([&] { return train_as_rank(options, ranks); });
}

}  // namespace

void add_train(CLI::App& app, Command& chosen) {
    auto options = std::make_shared<Options>();
    app.add_option("--config", options->config, "Run spec (YAML)")->type_name("RUN.yaml");
    app.add_option("--set", options->settings,
                   "Overrides a key of the run spec; may be given several times")
        ->type_name("KEY.PATH=VALUE")
        ->allow_extra_args(false);
    app.add_option("--resume", options->resume,
                   "auto: the newest valid checkpoint of the output directory, else a fresh start; "
                   "never: a fresh start, refused where there are checkpoints; "
                   "DIR: a checkpoint or an output directory")
        ->type_name("auto|never|DIR")
        ->capture_default_str();
    CLI::Option* dry_run =
        app.add_flag("--dry-run", options->dry_run,
                     "Print memory and work of the run without data, tokenizer or device");
    app.add_option("--world-size", options->world_size, "Ranks that a dry run assumes")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
        ->needs(dry_run);
    app.add_option(
           "--timeline", options->timeline,
           "With a dry run: the picture of one pipeline's step (.svg), or its trace (.json)")
        ->type_name("FILE")
        ->needs(dry_run);
    app.final_callback([&app, &chosen, options] {
        if (!app.get_subcommands().empty()) return;
        if (options->config.empty()) throw CLI::RequiredError("--config");
        chosen = [options] { return run_training(*options); };
    });
}

}  // namespace gptrain
