// The estimate of the buffers of messages, against sums by hand.
#include "planner/message_buffers.h"

#include "catch.h"
#include "schedule/stage_plan.h"

using namespace gptrain;

namespace {

/// A connection's buffers for LL, LL128 and simple, as `NCCL_DEBUG=INFO` prints their defaults.
constexpr std::int64_t connection = 524288 + 4915200 + 4194304;
/// Thread blocks, and so channels, of tp, cp and sums, of other groups and between stages.
constexpr std::int64_t sums = 16;
constexpr std::int64_t others = 8;
constexpr std::int64_t stages = 4;
/// Each channel of one direction over the network.
constexpr std::int64_t shared = 2 << 20;
constexpr std::int64_t ranks_per_node = 8;

RunPlan plan_of(const MeshShape& mesh) {
    RunPlan plan;
    plan.mesh = mesh;
    plan.model.groups = 8;
    plan.model.tie_embeddings = false;
    return plan;
}

std::int64_t bytes_of(const RunPlan& plan, const MeshPlace& place = {}) {
    return message_buffer_bytes(plan, place, mesh_connections(plan), ranks_per_node);
}

}  // namespace

TEST_CASE("NCCL's buffers follow from what ranks send, and from where they are") {
    CHECK(bytes_of(plan_of({})) == 0);
    RunPlan plan = plan_of({.data = 8});
    CHECK(bytes_of(plan) == sums * connection);
    plan.deterministic = false;
    CHECK(bytes_of(plan) == sums * connection + (256 << 20));
    plan.deterministic = true;
    // All pairs of a node exchange gradients in bf16.
    plan.grad_reduce = DType::bf16;
    CHECK(bytes_of(plan) == (sums + 7 * sums) * connection);
    // tp serves tp x pp too. cp has a ring, dp x cp its sums.
    CHECK(bytes_of(plan_of({.context = 2, .tensor = 4})) == (sums + sums + sums) * connection);
    // One rank on each node: over the network both ends of a connection have buffers.
    CHECK(bytes_of(plan_of({.data = 2, .tensor = 8})) == (sums + 2 * sums) * connection);
    CHECK(bytes_of(plan_of({.context = 2, .tensor = 8})) ==
          (sums + 2 * sums) * connection + 2 * sums * shared);
    // A ring of four ranks on two nodes: one message stays on its node.
    CHECK(bytes_of(plan_of({.context = 4, .tensor = 4})) ==
          (sums + sums + sums) * connection + 2 * sums * shared);
}

TEST_CASE("stages receive into NCCL's buffers on a node, and share them over the network") {
    const RunPlan on_node = plan_of({.pipeline = 4});
    // tp x pp. The first stage receives only gradients.
    CHECK(bytes_of(on_node) == (others + stages) * connection);
    CHECK(bytes_of(on_node, {.pp = 1}) == (others + 2 * stages) * connection);
    const RunPlan far = plan_of({.pipeline = 2, .tensor = 8});
    // tp; tp x pp, of which a node has eight; and both channels.
    CHECK(bytes_of(far) == (sums + others) * connection + 2 * stages * shared);
    // Two stages on each node: the second one has a neighbour on its own and one on the next.
    const RunPlan mixed = plan_of({.pipeline = 4, .tensor = 4});
    CHECK(bytes_of(mixed, {.pp = 1}) ==
          (sums + others + stages) * connection + 2 * stages * shared);
    // With algorithms other than rings every communicator is connected for all collectives.
    RunPlan any = plan_of({.pipeline = 2});
    any.deterministic = false;
    CHECK(bytes_of(any) ==
          (others + 2 * stages) * connection + 3 * (256 << 20) + stages * connection);
}

TEST_CASE("copies between GPUs have mailboxes in place of NCCL's buffers") {
    constexpr std::int64_t mailbox = 8 << 20;  // of one sender
    RunPlan plan = plan_of({.data = 2, .tensor = 4});
    plan.peer_messages = true;
    CHECK(bytes_of(plan) == (3 + 1) * mailbox);
    // The sums of dp x cp go over the network.
    plan = plan_of({.data = 2, .tensor = 8});
    plan.peer_messages = true;
    CHECK(bytes_of(plan) == 7 * mailbox + 2 * sums * connection);
    // tp x pp, and a channel in each direction.
    plan = plan_of({.pipeline = 2});
    plan.peer_messages = true;
    CHECK(bytes_of(plan) == 3 * mailbox);
}
