// The time of messages and where the ranks of a group are, by hand.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "catch.h"
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
    const MeshShape mesh = {.data = 4, .pipeline = 2, .context = 2, .tensor = 4, .kv = 2};
    const auto layout = [&](Axis axis) { return group_layout(axis, mesh, 8); };
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
    CHECK(group_layout(Axis::dp, mesh, 64).per_node == 4);
}

TEST_CASE("of groups that lie differently the one with the fewest ranks on a node counts") {
    const auto is = [](const GroupLayout& group, std::int64_t size, std::int64_t per_node,
                       std::int64_t nodes) {
        return group.size == size && group.per_node == per_node && group.nodes() == nodes;
    };
    // Ranks 0 to 5, then 6 to 11 of which two are on the first node.
    const MeshShape sixes = {.data = 4, .pipeline = 2, .tensor = 6};
    const auto shared_by = [&](std::int64_t kv) {
        MeshShape mesh = sixes;
        mesh.kv = kv;
        return mesh;
    };
    CHECK(is(group_layout(Axis::tp, sixes, 8), 6, 2, 2));
    CHECK(is(group_layout(Axis::tp, shared_by(3), 64), 6, 6, 1));
    CHECK(is(group_layout(Axis::tp, {.data = 1, .tensor = 6}, 8), 6, 6, 1));
    // Ranks 9, 10, 11 and 12, 13, 14 share their nodes; 6, 7, 8 do not.
    CHECK(is(group_layout(Axis::kv, shared_by(3), 8), 3, 1, 2));
    CHECK(is(group_layout(Axis::kv, shared_by(2), 8), 2, 2, 1));
    CHECK(is(group_layout(Axis::dp, sixes, 8), 4, 1, 3));
    CHECK(is(group_layout(Axis::embedding_ends, sixes, 8), 2, 1, 2));
    // A node and a half: the half has the fewer cards.
    CHECK(is(group_layout(Axis::dp, {.data = 12}, 8), 12, 4, 2));
    // Ranks 12 to 23 begin in the middle of a node, and are on two as well.
    CHECK(is(group_layout(Axis::dp, {.data = 12, .pipeline = 2}, 8), 12, 4, 2));
    CHECK(is(group_layout(Axis::dp, {.data = 10, .pipeline = 4}, 8), 10, 2, 2));
}

// Every group of every axis, from the definition.
TEST_CASE("the layout of groups is the worst of all of them") {
    const auto worst = [](Axis axis, const MeshShape& mesh, std::int64_t devices) {
        const std::vector<Axis> spanned = spanned_axes(axis);
        std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> groups;  // ranks on nodes
        for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
            MeshPlace first = place_of(rank, mesh);
            for (const MeshAxis& each : mesh_axes)
                if (std::find(spanned.begin(), spanned.end(), each.axis) != spanned.end())
                    first.*each.index = 0;
            ++groups[rank_of(first, mesh)][rank / devices];
        }
        std::pair<std::int64_t, std::int64_t> found = {mesh.size() + 1, 0};
        for (const auto& [first, nodes] : groups) {
            std::int64_t fewest = mesh.size();
            for (const auto& [node, count] : nodes)
                fewest = std::min(fewest, count);
            found = std::min(found, std::pair(fewest, -std::ssize(nodes)));
        }
        return found;
    };
    for (const MeshShape mesh :
         {MeshShape{3, 2, 1, 4}, MeshShape{2, 3, 2, 2}, MeshShape{5, 2, 3, 1},
          MeshShape{4, 4, 2, 4}, MeshShape{7, 1, 2, 3}}) {
        for (const std::int64_t devices : {1, 2, 4, 5, 6, 8, 12, 64}) {
            for (const Axis axis :
                 {Axis::tp, Axis::cp, Axis::dp, Axis::pp, Axis::dp_cp, Axis::model}) {
                CAPTURE(mesh.data, mesh.pipeline, mesh.context, mesh.tensor, devices,
                        name_of(axis));
                const GroupLayout group = group_layout(axis, mesh, devices);
                CHECK(std::pair(group.per_node, -group.nodes()) == worst(axis, mesh, devices));
            }
        }
    }
}

TEST_CASE("stages share a node if all of their ranks do") {
    const MeshShape mesh = {.data = 2, .pipeline = 6, .tensor = 2};
    CHECK(stages_share_node(0, 1, mesh, 8));
    CHECK(stages_share_node(1, 0, mesh, 8));
    CHECK(!stages_share_node(1, 2, mesh, 8));
    CHECK(!stages_share_node(5, 0, mesh, 8));
    // Ranks 0 and 6 share one, ranks 2 and 8 do not.
    CHECK(!stages_share_node(0, 1, {.data = 6, .pipeline = 2}, 8));
}

TEST_CASE("a ring within a node") {
    const GroupLayout group = {.size = 4, .per_node = 4};
    CHECK(message_seconds(node_of_eight(), group, "all_gather", 1000) == Approx(3 + 10));
    CHECK(message_seconds(node_of_eight(), group, "all_reduce", 1000) == Approx(6 + 10));
    CHECK(message_seconds(node_of_eight(), group, "send", 1000) == Approx(1 + 10));
}

TEST_CASE("the thread blocks of a message limit it within a node") {
    NodeProfile node = node_of_eight();
    node.link.block_bandwidth = 10;
    const auto seconds = [&](std::int64_t blocks) {
        return message_seconds(node, {.size = 2, .per_node = 2, .blocks = blocks}, "send", 1000);
    };
    CHECK(seconds(4) == Approx(1 + 1000.0 / 40));
    CHECK(seconds(16) == Approx(1 + 10));
    CHECK(seconds(0) == Approx(1 + 10));
    CHECK(group_layout(Axis::tp, {.tensor = 8}, 8).blocks == 16);
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

TEST_CASE("a link that was not measured takes no messages") {
    NodeProfile node = node_of_eight();
    const GroupLayout within = {.size = 4, .per_node = 4};
    const GroupLayout across = {.size = 4, .per_node = 1};
    node.link.bandwidth = 0;
    for (const std::string_view operation : {"all_reduce", "all_gather", "all_to_all", "send"}) {
        CHECK_THROWS_WITH(message_seconds(node, within, operation, 1000),
                          contains_text("node.link.bandwidth is 0") &&
                              contains_text("calibrate with several ranks"));
    }
    CHECK_THROWS_WITH(message_seconds(node, {.size = 16, .per_node = 8}, "all_gather", 1000),
                      contains_text("node.link.bandwidth"));
    CHECK(message_seconds(node, across, "reduce_scatter", 1000) == Approx(3 * 5 + 100));
    node.network->bandwidth = 0;
    CHECK_THROWS_WITH(message_seconds(node, across, "send", 1),
                      contains_text("node.network.bandwidth"));
}

TEST_CASE("more ranks than one node has need a network") {
    NodeProfile node = node_of_eight();
    node.network.reset();
    CHECK_THROWS_WITH(message_seconds(node, {.size = 16, .per_node = 8}, "all_gather", 1),
                      contains_text("node.network"));
}

}  // namespace gptrain::test
