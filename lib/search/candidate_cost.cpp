#include "search/candidate_cost.h"

#include <algorithm>

#include "base/checked.h"
#include "base/parallel_for.h"
#include "engine/memory_check.h"
#include "planner/message_buffers.h"
#include "schedule/stage_plan.h"

namespace gptrain {

RunPlan plan_of(const SearchContext& context, const Choices& choices) {
    return make_plan(with_choices(context.spec, choices), context.target);
}

StepEstimate time_of(const SearchContext& context, const RunPlan& plan) {
    TracedStep step(plan, context.needs);
    StepEstimate estimate = estimate_step(step, {}, context.hardware);
    estimate.step.timeline = {};
    return estimate;
}

std::int64_t required_bytes(const SearchContext& context, const RunPlan& plan,
                            const MeshPlace& place, const MeshConnections& connections,
                            const MemoryPlan& memory) {
    if (!context.target.cuda) return memory.total() + host_reserve;
    return memory.on_device() + context.needs.reserve +
           message_buffer_bytes(plan, place, connections, context.hardware.node.devices);
}

namespace {

RankNeeds needs_at(const SearchContext& context, const RunPlan& plan, const MeshPlace& place) {
    const MemoryPlan memory = measure_memory(plan, place, context.needs);
    return {.device = required_bytes(context, plan, place, mesh_connections(plan), memory),
            .host = context.target.cuda ? host_bytes(memory, false) : 0};
}

}  // namespace

std::int64_t ends_memory(const SearchContext& context, const RunPlan& plan) {
    const auto of_stage = [&](std::int64_t stage) {
        return needs_at(context, plan, {.pp = narrow<int>(stage)}).device;
    };
    const std::int64_t first = of_stage(0);
    return plan.mesh.pipeline == 1 ? first : std::max(first, of_stage(plan.mesh.pipeline - 1));
}

RankNeeds mesh_memory(const SearchContext& context, const RunPlan& plan) {
    const auto needs = parallel_map(rank_classes(plan), [&](const RankClass& each) {
        return needs_at(context, plan, place_of(each.ranks.front(), plan.mesh));
    });
    RankNeeds most;
    for (const RankNeeds& each : needs) {
        most.device = std::max(most.device, each.device);
        most.host = std::max(most.host, each.host);
    }
    return most;
}

std::optional<std::string> host_shortage(const SearchContext& context, const RankNeeds& needs) {
    if (context.host_capacity == 0 || static_cast<double>(needs.host) <= context.host_capacity)
        return {};
    return text("host memory: a rank needs ", human_bytes(needs.host), " of its ",
                human_bytes(static_cast<std::int64_t>(context.host_capacity)));
}

}  // namespace gptrain
