// The time of messages and where the ranks of a group are, by hand.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "hardware/message_time.h"

namespace gptrain::test {
namespace {

NodeProfile node_of_eight() {
    NodeProfile node;
    node.devices = 8;
    node.cards = 8;
    node.link = {.bandwidth = 100, .latency = 1};
    node.network = LinkProfile{.bandwidth = 10, .latency = 5};
    return node;
}

}  // namespace

TEST_CASE("ranks fill the nodes in the order of the mesh") {
    const MeshShape mesh = {.data = 4, .pipeline = 2, .context = 2, .tensor = 4};
    const auto layout = [&](Axis axis) { return group_layout(axis, mesh, 2, 8); };
    const auto is = [](const GroupLayout& group, std::int64_t size, std::int64_t per_node) {
        return group.size == size && group.per_node == per_node;
    };
    CHECK(is(layout(Axis::tp), 4, 4));
    CHECK(is(layout(Axis::cp), 2, 2));
    CHECK(is(layout(Axis::dp), 4, 1));
    CHECK(is(layout(Axis::dp_cp), 8, 2));
    CHECK(is(layout(Axis::pp), 2, 1));
    CHECK(is(layout(Axis::model), 8, 4));
    CHECK(is(layout(Axis::kv), 2, 2));
    CHECK(is(layout(Axis::embedding_ends), 2, 1));
    CHECK(group_layout(Axis::dp, mesh, 1, 64).per_node == 4);
}

TEST_CASE("a ring within a node") {
    const GroupLayout group = {.size = 4, .per_node = 4};
    CHECK(message_seconds(node_of_eight(), group, "all_gather", 1000) == Approx(3 + 10));
    CHECK(message_seconds(node_of_eight(), group, "all_reduce", 1000) == Approx(6 + 10));
    CHECK(message_seconds(node_of_eight(), group, "send", 1000) == Approx(1 + 10));
}

TEST_CASE("a small message takes the tree") {
    const GroupLayout group = {.size = 8, .per_node = 8};
    CHECK(message_seconds(node_of_eight(), group, "all_reduce", 1) == Approx(2 * 3 + 2 * 0.01));
}

TEST_CASE("across nodes the cards limit the ring") {
    const GroupLayout one_each = {.size = 4, .per_node = 1};
    CHECK(message_seconds(node_of_eight(), one_each, "reduce_scatter", 1000) ==
          Approx(3 * 5 + 100));
    const GroupLayout two_each = {.size = 8, .per_node = 2};
    CHECK(message_seconds(node_of_eight(), two_each, "reduce_scatter", 1000) ==
          Approx(3 * 5 + 4 * 1 + 50));
    NodeProfile shared_card = node_of_eight();
    shared_card.cards = 4;
    CHECK(message_seconds(shared_card, one_each, "reduce_scatter", 1000) == Approx(3 * 5 + 200));
}

TEST_CASE("across nodes each rank sends its own messages through its own cards") {
    const NodeProfile node = node_of_eight();
    const GroupLayout two_nodes = {.size = 16, .per_node = 8};
    CHECK(message_seconds(node, two_nodes, "send_recv", 1000) == Approx(5 + 100));
    CHECK(bandwidth_of(node, two_nodes, "send_recv") == Approx(10));
    CHECK(bandwidth_of(node, two_nodes, "all_gather") == Approx(80));
    // Half of it and a fifteenth leave the node.
    CHECK(message_seconds(node, two_nodes, "all_to_all", 1500) ==
          Approx(5 + 14 * 1 + 100 * 8 / 10.0));
    CHECK(bandwidth_of(node, two_nodes, "all_to_all") == Approx(10 * 15 / 8.0));
    NodeProfile fast_network = node_of_eight();
    fast_network.network->bandwidth = 1000;
    CHECK(message_seconds(fast_network, two_nodes, "all_to_all", 1500) ==
          Approx(5 + 14 * 1 + 100 * 7 / 100.0));
    // Within a node an exchange has the link, and no tree.
    const GroupLayout one_node = {.size = 8, .per_node = 8};
    CHECK(message_seconds(node, one_node, "all_to_all", 1) == Approx(7 + 0.01));
}

TEST_CASE("switches that add shorten an all-reduce only") {
    NodeProfile node = node_of_eight();
    node.link.reduction = 0.5;
    const GroupLayout group = {.size = 4, .per_node = 4};
    CHECK(message_seconds(node, group, "all_reduce", 1000) == Approx(6 + 5));
    CHECK(message_seconds(node, group, "all_gather", 1000) == Approx(3 + 10));
}

TEST_CASE("more ranks than one node has need a network") {
    NodeProfile node = node_of_eight();
    node.network.reset();
    CHECK_THROWS_WITH(message_seconds(node, {.size = 16, .per_node = 8}, "all_gather", 1),
                      Catch::Contains("node.network"));
}

}  // namespace gptrain::test
