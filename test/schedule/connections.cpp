// What the communicators of a mesh connect.
#include <memory>

#include "catch.h"
#include "schedule/stage_plan.h"

using namespace gptrain;

TEST_CASE("all pairs of ranks are connected where attention or gradients use all_to_all",
          "[schedule]") {
    RunPlan plan;
    plan.model.groups = 1;
    CHECK(mesh_connections(plan).all_to_all.empty());
    plan.context_method = ContextMethod::all_to_all;
    plan.grad_reduce = DType::bf16;
    std::vector<Axis> connected;
    const Mesh mesh(plan.mesh, MeshPlace(), mesh_connections(plan),
                    [&](const RankGroup& group) -> std::unique_ptr<Communicator> {
                        if (group.all_to_all) connected.push_back(group.axis);
                        return nullptr;
                    });
    CHECK(connected == std::vector{Axis::cp, Axis::dp_cp});
}
