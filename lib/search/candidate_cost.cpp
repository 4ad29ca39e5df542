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

std::int64_t bytes_at(const SearchContext& context, const RunPlan& plan, const MeshPlace& place) {
    return required_bytes(context, plan, place, mesh_connections(plan),
                          measure_memory(plan, place, context.needs));
}

}  // namespace

std::int64_t ends_memory(const SearchContext& context, const RunPlan& plan) {
    const auto of_stage = [&](std::int64_t stage) {
        return bytes_at(context, plan, {.pp = narrow<int>(stage)});
    };
    const std::int64_t first = of_stage(0);
    return plan.mesh.pipeline == 1 ? first : std::max(first, of_stage(plan.mesh.pipeline - 1));
}

std::int64_t mesh_memory(const SearchContext& context, const RunPlan& plan) {
    const auto bytes = parallel_map(rank_classes(plan), [&](const RankClass& each) {
        return bytes_at(context, plan, place_of(each.ranks.front(), plan.mesh));
    });
    return *std::max_element(bytes.begin(), bytes.end());
}

}  // namespace gptrain
