// Which axes lie inside nodes, and the line that says how messages travel.
#include "comm/peer_axes.h"

#include "catch.h"

namespace gptrain::test {
namespace {

/// The node of each rank, with `per_node` ranks on each.
std::vector<std::string> filled(std::int64_t ranks, std::int64_t per_node) {
    std::vector<std::string> nodes;
    for (std::int64_t rank = 0; rank < ranks; ++rank)
        nodes.push_back(text("n", rank / per_node));
    return nodes;
}

PeerAxes inside(const MeshShape& shape, std::int64_t per_node) {
    return axes_inside_nodes(shape, filled(shape.size(), per_node));
}

}  // namespace

TEST_CASE("Axes whose groups lie inside nodes are those of the innermost ranks") {
    const MeshShape shape = {.data = 2, .pipeline = 2, .context = 2, .tensor = 2, .kv = 2};
    CHECK(inside(shape, 2) == PeerAxes{Axis::tp, Axis::kv});
    CHECK(inside(shape, 4) == PeerAxes{Axis::tp, Axis::cp, Axis::kv});
    CHECK(inside(shape, 8) == PeerAxes{Axis::tp, Axis::cp, Axis::dp_cp, Axis::kv});
    CHECK(inside(shape, 16) == PeerAxes{Axis::tp, Axis::cp, Axis::pp, Axis::dp_cp, Axis::model,
                                        Axis::kv, Axis::embedding_ends});
    CHECK(inside(shape, 1).empty());
    CHECK(inside({}, 8).empty());
}

TEST_CASE("Ranks that divide experts may lie inside nodes") {
    const MeshShape shape = {.data = 4, .tensor = 2, .expert = 4};
    CHECK(inside(shape, 4) == PeerAxes{Axis::tp, Axis::model, Axis::experts});
    CHECK(inside(shape, 8) ==
          PeerAxes{Axis::tp, Axis::dp_cp, Axis::model, Axis::experts, Axis::expert_copies});
}

TEST_CASE("One group that reaches over nodes keeps its axis from being copied") {
    const MeshShape shape = {.data = 3, .tensor = 2};
    CHECK(inside(shape, 6) == PeerAxes{Axis::tp, Axis::dp_cp, Axis::model});
    CHECK(inside(shape, 3).empty());
    // In turn over two nodes, the ranks of dp share a node.
    const std::vector<std::string> cyclic = {"a", "b", "a", "b"};
    CHECK(axes_inside_nodes({.data = 2, .tensor = 2}, cyclic) == PeerAxes{Axis::dp_cp});
}

TEST_CASE("A group of more ranks than a sum can have is not copied") {
    CHECK(inside({.tensor = most_peers}, 64) == PeerAxes{Axis::tp, Axis::model});
    CHECK(inside({.tensor = most_peers + 1}, 64).empty());
}

TEST_CASE("A line says how the messages of each axis travel") {
    const std::vector<Axis> connected = {Axis::tp, Axis::cp, Axis::dp_cp};
    CHECK(messages_line(connected, {Axis::tp, Axis::cp, Axis::kv}, "2.28.9") ==
          "messages: tp and cp by copies between GPUs, dp x cp over NCCL 2.28.9");
    CHECK(messages_line(connected, {}, "2.28.9") ==
          "messages: tp, cp and dp x cp over NCCL 2.28.9");
    CHECK(messages_line(connected, connected, "") ==
          "messages: tp, cp and dp x cp by copies between GPUs");
}

}  // namespace gptrain::test
