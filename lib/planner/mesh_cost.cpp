#include "planner/mesh_cost.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/parallel_for.h"
#include "metrics/comm_metrics.h"

namespace gptrain {
namespace {

/// True if the ranks of cp see different numbers of keys: without windows the slices of a ring are
/// balanced.
bool has_unequal_slices(const RunPlan& plan) {
    return plan.limits_attention() && plan.context_method == ContextMethod::ring;
}

}  // namespace

std::vector<RankClass> rank_classes(const RunPlan& plan) {
    std::vector<RankClass> classes;
    // By stage, microbatches, slices and sizes.
    std::map<std::tuple<int, std::int64_t, int, OwnSizes>, std::size_t> known;
    std::map<std::pair<int, int>, std::vector<OwnSizes>> sizes;  // by stage and rank on tp
    for (std::int64_t rank = 0; rank < plan.mesh.size(); ++rank) {
        const MeshPlace place = place_of(rank, plan.mesh);
        std::vector<OwnSizes>& of_stage = sizes[{place.pp, place.tp}];
        if (of_stage.empty()) of_stage = own_sizes(plan, place.pp, place.tp);
        const auto dp_cp = static_cast<std::size_t>(place.dp * plan.mesh.context + place.cp);
        const std::int64_t microbatches = plan.microbatches(plan.batch.global_batch_size, place.dp);
        const int slices = has_unequal_slices(plan) ? place.cp : 0;
        const auto [entry, is_new] =
            known.try_emplace({place.pp, microbatches, slices, of_stage[dp_cp]}, classes.size());
        if (is_new) classes.push_back({place.pp, {}});
        classes[entry->second].ranks.push_back(rank);
    }
    return classes;
}

std::vector<RankCost> measure_mesh(const RunPlan& plan, const BackendMemory& needs) {
    return parallel_map(rank_classes(plan), [&](const RankClass& each) {
        return RankCost{each, measure_run(plan, place_of(each.ranks.front(), plan.mesh), needs)};
    });
}

MeshPlace busiest_rank(const RunPlan& plan, std::int64_t stage) {
    MeshPlace place = {.pp = narrow<int>(stage)};
    // The keys that a query sees grow with its position up to the window, so two slices see the
    // most where they are closest to each other: in the middle.
    if (has_unequal_slices(plan)) place.cp = narrow<int>(plan.mesh.context) - 1;
    return place;
}

std::vector<StepTrace> trace_stages(const RunPlan& plan, const BackendMemory& needs) {
    std::vector<StepTrace> traces(static_cast<std::size_t>(plan.mesh.pipeline));
    parallel_for(std::ssize(traces), core_count(), [&](std::int64_t stage) {
        traces[static_cast<std::size_t>(stage)] =
            trace_step(plan, busiest_rank(plan, stage), needs);
    });
    return traces;
}

std::int64_t sent_bytes(Axis axis, const StepCost& cost, const MeshShape& mesh) {
    std::int64_t bytes = 0;
    for (int i = 0; i < axes; ++i) {
        const auto kind = static_cast<Axis>(i);
        if (reported_axis(kind, mesh) == axis) bytes += cost.sent(kind);
    }
    return bytes;
}

std::int64_t max_sent_bytes(std::span<const RankCost> ranks, Axis axis, const MeshShape& mesh) {
    std::int64_t most = 0;
    for (const RankCost& rank : ranks)
        most = std::max(most, sent_bytes(axis, rank.cost, mesh));
    return most;
}

}  // namespace gptrain
