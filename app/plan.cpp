// gptrain plan: what a run takes on hardware that need not be here.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "calibration.h"
#include "commands.h"
#include "device.h"
#include "hardware/load_profile.h"
#include "planner/step_estimate.h"
#include "spec/make_plan.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_ranks = std::int64_t{1} << 24;

struct Options {
    std::string config;
    std::vector<std::string> settings;
    std::optional<std::int64_t> world_size;
    std::string hardware;
    std::string calibrate;
};

ExitCode run_plan(const Options& options) {
    const RunSpec spec = load_run_spec(options.config, options.settings);
    const HardwareProfile hardware = load_profile(options.hardware);
    const PlanTarget target = {.world_size = options.world_size.value_or(min_ranks(spec.parallel)),
                               .cuda = plan_for_cuda(spec.device, hardware),
                               .dry_run = true};
    const RunPlan plan = make_plan(spec, target);
    const BackendMemory needs = backend_memory(target.cuda);
    const StepEstimate estimate =
        estimate_step(plan, trace_stages(plan, needs), measure_mesh(plan, needs), hardware);
    print("the spec's own mesh: ", fixed(estimate.step.seconds, 3), " s a step on ",
          estimate.world_size, " x ", hardware.name);
    return ExitCode::done;
}

}  // namespace

void add_plan(CLI::App& app, Command& chosen) {
    CLI::App* command =
        app.add_subcommand("plan", "Find the mesh and the settings that train a model fastest");
    command->group("");  // absent from --help until it searches
    auto options = std::make_shared<Options>();
    command->add_option("--config", options->config, "Run spec (YAML)")->type_name("RUN.yaml");
    add_settings(*command, options->settings);
    command
        ->add_option("--world-size", options->world_size,
                     "Ranks; default: the minimum for the spec's mesh")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, max_ranks));
    command
        ->add_option("--hardware", options->hardware,
                     "A profile of the program (h100-sxm, ...) or a file like those of "
                     "configs/hardware")
        ->type_name("NAME|FILE");
    command
        ->add_option("--calibrate", options->calibrate,
                     "Measure the machine of the ranks started, and write its profile")
        ->type_name("FILE")
        ->excludes("--config", "--world-size", "--hardware");
    command->final_callback([&chosen, options] {
        if (!options->calibrate.empty()) {
            chosen = [options] { return run_calibrate(options->calibrate); };
            return;
        }
        if (options->config.empty()) throw CLI::RequiredError("plan: --config");
        if (options->hardware.empty()) throw CLI::RequiredError("plan: --hardware");
        chosen = [options] { return run_plan(*options); };
    });
}

}  // namespace gptrain
