#include "train/timed_steps.h"

#include <cmath>
#include <optional>

#include "calibrate/made_up_batch.h"
#include "engine/measure.h"
#include "engine/memory_check.h"
#include "train/make_engine.h"
#include "train/step_runner.h"

namespace gptrain {
namespace {

constexpr std::int64_t warmup_steps = 2;

/// The engine of the plan, if the memory suffices.
ObservedEngine checked_engine(const RunSpec& spec, const RunPlan& plan, const RunDevices& devices) {
    const StepCost cost = measure_run(plan, devices.mesh.place(), memory_of(devices.backend));
    MemoryCheck(devices.backend, devices.ranks).require(cost.memory, [] {
        return std::string("leave memory free with --memory-headroom");
    });
    return make_engine(spec, plan, devices, cost);
}

/// Seconds of the steps after the warm-up.
std::vector<double> times_of(ObservedEngine& run, const RunPlan& plan, const RunDevices& devices,
                             std::int64_t count, const std::function<bool()>& stop) {
    StepRunner steps(*run.engine, run.faults.get(), devices.observers,
                     ExpertSlices(most_expert_slices(plan)));
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
    // While an error spreads to all ranks, messages in flight may still use the engine's memory.
    ObservedEngine run;
    return or_abort(devices.mesh, [&] {
        run = checked_engine(spec, plan, devices);
        run.engine->initialise();
        return times_of(run, plan, devices, count, stop);
    });
}

}  // namespace gptrain
