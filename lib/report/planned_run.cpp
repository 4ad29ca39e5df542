#include "report/planned_run.h"

#include <algorithm>
#include <cmath>

#include "planner/mesh_cost.h"
#include "spec/model_cost.h"

namespace gptrain {
namespace {

std::vector<CommMetric> sent_on_axes(const std::vector<RankCost>& ranks, const MeshShape& mesh) {
    std::vector<CommMetric> comm;
    for (const Axis axis : reported_axes) {
        const std::int64_t most = max_sent_bytes(ranks, axis, mesh);
        if (most > 0) comm.push_back({.axis = name_of(axis), .bytes = most});
    }
    return comm;
}

}  // namespace

std::optional<std::int64_t> logged_ranks(const RunLog& log, const RunSpec& spec) {
    if (log.steps.empty()) return std::nullopt;
    const StepMetrics& last = log.steps.back();
    if (!last.tokens_per_s || !last.tflops_per_device) return std::nullopt;
    const RunPlan plan = make_plan(spec, {.world_size = min_ranks(spec.parallel), .dry_run = true});
    const double all = *last.tokens_per_s * flops_per_token(plan);
    const double ranks = std::round(all / (*last.tflops_per_device * 1e12));
    if (!(ranks >= 1 && ranks <= static_cast<double>(max_planned_ranks))) return std::nullopt;
    return static_cast<std::int64_t>(ranks);
}

PlannedRun plan_run(const RunSpec& spec, const PlanTarget& target, const BackendMemory& needs,
                    const HardwareProfile* hardware) {
    PlannedRun planned = {.plan = make_plan(spec, target), .comm = {}, .estimate = {}};
    const std::vector<RankCost> ranks = measure_mesh(planned.plan, needs);
    for (const RankCost& rank : ranks)
        planned.memory_bytes = std::max(planned.memory_bytes, rank.cost.memory.total());
    planned.comm = sent_on_axes(ranks, planned.plan.mesh);
    if (hardware != nullptr) {
        TracedStep step(planned.plan, needs);
        planned.estimate = estimate_step(step, ranks, *hardware);
    }
    return planned;
}

}  // namespace gptrain
