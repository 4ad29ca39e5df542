// Which rank holds, updates and saves which experts, where ranks divide them.
#include <algorithm>
#include <map>

#include "catch.h"
#include "engine/rank_training.h"
#include "meter/meter_communicator.h"
#include "model/ownership.h"
#include "schedule/stage_plan.h"
#include "spec/make_plan.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

/// A mixture with shared experts on a mesh whose ranks divide the experts.
RunSpec spec_on(const MeshShape& mesh) {
    RunSpec spec = tiny_shared_experts_spec();
    spec.model.num_query_groups = 4;
    spec.parallel.tensor = mesh.tensor;
    spec.parallel.sequence_parallel = mesh.tensor > 1;
    spec.parallel.context = mesh.context;
    spec.parallel.data = mesh.data;
    spec.parallel.expert = mesh.expert;
    spec.training.global_batch_size = 8;
    return spec;
}

bool is_of_experts(const Parameter& parameter) {
    return parameter.shard.global.rank() == 3;
}

/// How many ranks do something with each element of a tensor, by its name.
struct Counts {
    std::map<std::string, std::vector<int>> of;

    void add(const Shard& shard) {
        std::vector<int>& counts = of[shard.name];
        counts.resize(static_cast<std::size_t>(shard.global.elements()));
        for (std::int64_t i = shard.flat_begin; i < shard.flat_end; ++i)
            ++counts[static_cast<std::size_t>(shard.global_index(i))];
    }
    bool all_are(const std::string& name, int expected) const {
        return std::ranges::all_of(of.at(name), [&](int count) { return count == expected; });
    }
};

}  // namespace

TEST_CASE("every element has one owner where ranks divide the experts", "[optim]") {
    const MeshShape mesh_shape = GENERATE(
        MeshShape{.data = 2, .tensor = 2, .expert = 2}, MeshShape{.tensor = 4, .expert = 2},
        MeshShape{.data = 2, .tensor = 2, .expert = 4}, MeshShape{.data = 4, .expert = 2},
        MeshShape{.data = 4, .expert = 4},
        MeshShape{.data = 2, .context = 2, .tensor = 2, .expert = 4},
        MeshShape{.data = 2, .context = 2, .tensor = 2, .expert = 8});
    RunSpec spec = spec_on(mesh_shape);
    spec.parallel.shard = GENERATE(Sharded::optimizer, Sharded::none);
    spec.optimizer.name = GENERATE(0, 1) == 0 ? "adamw" : "muon";
    if (GENERATE(false, true)) spec.training.frozen = {"h.1.experts.*", "h.1.router.*"};
    CAPTURE(mesh_shape.data, mesh_shape.context, mesh_shape.tensor, mesh_shape.expert,
            name_of(spec.parallel.shard), spec.optimizer.name, spec.training.frozen);
    const RunPlan plan = make_plan(spec, {.world_size = mesh_shape.size()});
    const auto layout_on = [&](const Mesh& mesh) { return training_layout(plan, mesh); };
    const auto mesh_at = [&](std::int64_t rank) {
        return Mesh(plan.mesh, place_of(rank, plan.mesh), {}, meter_communicators());
    };
    const ParameterLayout first = layout_on(mesh_at(0));
    Counts held;
    Counts saved;
    for (std::int64_t rank = 0; rank < mesh_shape.size(); ++rank) {
        const Mesh mesh = mesh_at(rank);
        const ParameterLayout layout = layout_on(mesh);
        for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
            const Parameter& parameter = layout.parameters[i];
            // All ranks have the same flat order and the same owners.
            CHECK(parameter.begin() == first.parameters[i].begin());
            CHECK(parameter.owner == first.parameters[i].owner);
            if (!is_of_experts(parameter)) continue;
            held.add(parameter.shard);
            CHECK(parameter.shard.box.extent[0] == 8 / mesh_shape.expert);
            CHECK_FALSE(parameter.also_sums);
        }
        for (const OwnedRange& range : owned_ranges(layout, mesh)) {
            const bool saves = owner_of(range.parameter->sharing, mesh).saves;
            if (range.shard.owned && saves) saved.add(range.shard);
        }
        for (const OwnedRange& range : frozen_ranges(layout, mesh))
            if (range.shard.owned) saved.add(range.shard);
        for (const WeightMessage& message : weight_messages(layout, mesh)) {
            const auto of = std::ranges::find_if(layout.parameters, [&](const Parameter& each) {
                return each.begin() == message.range.begin;
            });
            REQUIRE(of != layout.parameters.end());
            CHECK(message.owners == (is_of_experts(*of) ? Axis::expert_copies : Axis::dp_cp));
        }
    }
    for (const Parameter& parameter : first.parameters) {
        const std::string& name = parameter.shard.name;
        CAPTURE(name);
        CHECK(saved.all_are(name, 1));
        if (is_of_experts(parameter))
            CHECK(held.all_are(name, narrow<int>(mesh_shape.size() / mesh_shape.expert)));
    }
}
