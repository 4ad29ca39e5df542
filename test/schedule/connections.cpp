// The communicators of a mesh: which ranks they connect, and for which traffic.
#include <map>
#include <memory>
#include <vector>

#include "catch.h"
#include "schedule/stage_plan.h"

using namespace gptrain;

namespace {

/// The groups of several ranks that rank 0 belongs to, without channels, by axis.
std::map<Axis, Traffic> connected(const RunPlan& plan) {
    std::map<Axis, Traffic> groups;
    const Mesh mesh(plan.mesh, {}, mesh_connections(plan), [&](const RankGroup& group) {
        if (group.size > 1 && !group.traffic.one_way) groups[group.axis] = group.traffic;
        return std::make_unique<OneRankCommunicator>();
    });
    return groups;
}

constexpr Traffic collectives = {.ring = false, .all_pairs = false, .one_way = false};

}  // namespace

TEST_CASE("ranks are connected for what they send", "[schedule]") {
    RunPlan plan;
    plan.mesh = {.data = 2, .pipeline = 4, .context = 2, .tensor = 2};
    std::map<Axis, Traffic> expected = {
        {Axis::tp, collectives},
        {Axis::cp, {.collectives = false, .all_pairs = false, .one_way = false}},
        {Axis::dp_cp, collectives},
        {Axis::model, collectives},
        {Axis::embedding_ends, collectives}};
    CHECK(connected(plan) == expected);
    plan.context_method = ContextMethod::all_to_all;
    plan.grad_reduce = DType::bf16;
    expected[Axis::cp] = {.ring = false, .one_way = false};
    expected[Axis::dp_cp].all_pairs = true;
    CHECK(connected(plan) == expected);
}

TEST_CASE("axes with the same ranks share a communicator", "[schedule]") {
    RunPlan plan;
    plan.mesh = {.data = 2, .tensor = 2, .kv = 2};
    // tp x pp and the sharers of k/v heads are tp; data ranks have dp x cp alone.
    CHECK(connected(plan) ==
          std::map<Axis, Traffic>{{Axis::tp, collectives}, {Axis::dp_cp, collectives}});
    // With two stages every stage is an end, unless there is a tp axis.
    plan.mesh = {.pipeline = 2};
    CHECK(connected(plan) == std::map<Axis, Traffic>{{Axis::model, collectives}});
    plan.mesh = {.pipeline = 2, .tensor = 2, .kv = 2};
    CHECK(connected(plan) == std::map<Axis, Traffic>{{Axis::tp, collectives},
                                                     {Axis::model, collectives},
                                                     {Axis::embedding_ends, collectives}});
    plan.mesh = {.pipeline = 4};
    CHECK(connected(plan) ==
          std::map<Axis, Traffic>{{Axis::model, collectives}, {Axis::embedding_ends, collectives}});
}

TEST_CASE("ranks that divide experts exchange rows, and copies of experts sum gradients",
          "[schedule]") {
    constexpr Traffic rows = {.collectives = false, .ring = false, .one_way = false};
    RunPlan plan;
    plan.mesh = {.data = 2, .context = 2, .tensor = 2};
    std::map<Axis, Traffic> expected = connected(plan);
    CHECK_FALSE(expected.contains(Axis::experts));
    CHECK_FALSE(expected.contains(Axis::expert_copies));
    plan.mesh.expert = 4;
    expected[Axis::experts] = rows;
    expected[Axis::expert_copies] = collectives;
    CHECK(connected(plan) == expected);
    plan.grad_reduce = DType::bf16;
    expected[Axis::dp_cp].all_pairs = expected[Axis::expert_copies].all_pairs = true;
    CHECK(connected(plan) == expected);
    // All ranks divide the experts: nobody has a copy.
    plan.mesh.expert = 8;
    expected.erase(Axis::expert_copies);
    CHECK(connected(plan) == expected);
}

TEST_CASE("groups of owners have communicators, and so have their copies", "[schedule]") {
    RunPlan plan;
    plan.mesh = {.data = 8, .shard = 4};
    const std::map<Axis, Traffic> expected = {
        {Axis::dp_cp, collectives}, {Axis::shard, collectives}, {Axis::shard_copies, collectives}};
    CHECK(connected(plan) == expected);
    plan.mesh.shard = 1;
    CHECK(connected(plan) == std::map<Axis, Traffic>{{Axis::dp_cp, collectives}});
}

TEST_CASE("communicators have the numbers of their axes, also where axes share one", "[schedule]") {
    RunPlan plan;
    plan.mesh = {.data = 2, .tensor = 2, .kv = 2};
    std::vector<Axis> made;
    const Mesh mesh(plan.mesh, {}, mesh_connections(plan), [&](const RankGroup& group) {
        made.push_back(group.axis);
        return std::make_unique<OneRankCommunicator>();
    });
    REQUIRE(made.size() == axes);
    for (std::size_t i = 0; i < made.size(); ++i)
        CHECK(made[i] == static_cast<Axis>(i));
}
