#include "planner/traced_step.h"

#include <vector>

#include "engine/long_step.h"
#include "planner/mesh_cost.h"
#include "schedule/stage_plan.h"

namespace gptrain {
namespace {

std::vector<double> to_times(const std::vector<StageTime>& stages) {
    std::vector<double> times;
    for (const StageTime& stage : stages) {
        times.insert(times.end(), {stage.begin, stage.end});
        times.insert(times.end(), stage.spent.begin(), stage.spent.end());
    }
    return times;
}

std::vector<StageTime> to_stages(const std::vector<double>& times) {
    std::vector<StageTime> stages;
    for (auto next = times.begin(); next != times.end();) {
        StageTime& stage = stages.emplace_back();
        stage.begin = *next++;
        stage.end = *next++;
        for (double& spent : stage.spent)
            spent = *next++;
    }
    return stages;
}

}  // namespace

PipelineTraces& TracedStep::traces(std::int64_t microbatches) {
    const auto [entry, is_new] = traces_.try_emplace(microbatches);
    if (is_new) {
        entry->second = {.mesh = plan_.mesh,
                         .chunks = plan_.virtual_stages,
                         .peer_messages = plan_.peer_messages,
                         .stages = trace_stages(with_microbatches(plan_, microbatches), needs_)};
    }
    return entry->second;
}

StepTime TracedStep::time(const HardwareProfile& hardware, bool only_rings) {
    const auto simulate = [&](std::int64_t microbatches, Tracks* tracks) {
        PipelineTraces& pipeline = traces(microbatches);
        pipeline.only_rings = only_rings;
        return time_step(pipeline, hardware, tracks);
    };
    const std::int64_t count = most_microbatches(plan_);
    if (count <= most_executed) return simulate(count, nullptr);
    return step_of(to_stages(times_of_step(
        pipeline_of(plan_, count), full_microbatches(plan_), [&](std::int64_t microbatches) {
            SimulatedStep step;
            step.times = to_times(simulate(microbatches, &step.tracks).stages);
            return step;
        })));
}

StepTime TracedStep::time(const HardwareProfile& hardware) {
    return time(hardware, plan_.deterministic);
}

double TracedStep::seconds_with_any_algorithm(const HardwareProfile& hardware) {
    return time(hardware, false).seconds;
}

}  // namespace gptrain
