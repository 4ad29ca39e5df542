#include "train/timed_steps.h"

#include <cmath>
#include <memory>
#include <optional>

#include "calibrate/made_up_batch.h"
#include "engine/memory_check.h"
#include "engine/tuning.h"
#include "report/run_directory.h"
#include "train/injected_faults.h"
#include "train/step_runner.h"

namespace gptrain {
namespace {

constexpr std::int64_t warmup_steps = 2;

/// The engine of the plan, and what the spec does to it.
struct TimedRun {
    std::optional<Engine> engine;
    std::unique_ptr<InjectedFaults> faults;
};

void prepare(const RunSpec& spec, const RunPlan& plan, const RunDevices& devices, TimedRun& run) {
    const MpiSession& ranks = devices.ranks;
    Progress& progress = devices.observers.watchdog.progress();
    const StepCost cost = measure_run(plan, devices.mesh.place(), memory_of(devices.backend));
    MemoryCheck(devices.backend, ranks).require(cost.memory, [] {
        return std::string("leave memory free with --memory-headroom");
    });
    progress.phase("tune", 0);
    prepare_linear_ops(devices.backend, cost.linear_ops, op_limits(plan), ranks,
                       [&] { progress.record_move(); });
    progress.phase("load", 0);
    ranks.run_on_all([&] {
        run.engine.emplace(devices.backend, devices.mesh, plan, cost.memory);
        run.engine->listen(devices.observers.actions);
        if (!spec.fault_injection) return;
        run.faults = std::make_unique<InjectedFaults>(
            *spec.fault_injection, InjectedFaults::Target{*run.engine, plan, ranks.rank(),
                                                          RunPaths{spec.output_dir}.checkpoints()});
        run.engine->listen(*run.faults);
    });
    run.engine->initialise();
}

/// Seconds of the steps after the warm-up.
std::vector<double> times_of(TimedRun& run, const RunPlan& plan, const RunDevices& devices,
                             std::int64_t count, const std::function<bool()>& stop) {
    StepRunner steps(*run.engine, run.faults.get(), devices.observers);
    StepBatch batch = made_up_batch(plan, devices.mesh.place().dp);
    std::vector<double> seconds;
    const auto take = [&](const std::optional<FinishedStep>& finished) {
        if (!finished || finished->state.step <= warmup_steps) return;
        const auto nanoseconds = static_cast<std::int64_t>(std::llround(1e9 * finished->seconds));
        seconds.push_back(1e-9 * static_cast<double>(devices.ranks.max(nanoseconds)));
    };
    for (batch.step = 1; batch.step <= warmup_steps + count; ++batch.step) {
        devices.observers.watchdog.progress().phase("step", batch.step);
        if (devices.ranks.max(stop() ? 1 : 0) > 0) break;
        steps.begin();
        take(steps.issue(batch, 0));
        // A host has done the step. A device has work while the results of the last step are read.
        if (devices.backend.is_host()) take(steps.finish());
    }
    take(steps.finish());
    return seconds;
}

}  // namespace

std::vector<double> time_steps(const RunSpec& spec, const RunPlan& plan, const RunDevices& devices,
                               std::int64_t count, const std::function<bool()>& stop) {
    TimedRun run;
    return or_abort(devices.mesh, [&] {
        prepare(spec, plan, devices, run);
        return times_of(run, plan, devices, count, stop);
    });
}

}  // namespace gptrain
