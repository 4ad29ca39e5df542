// Which rank is to blame for a hang, according to the ranks' records.
#include "watch/hang_report.h"

#include "catch.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

/// Waiting in, or after, an operation on the communicator of an axis.
RankView at(Axis axis, std::int64_t number, bool waiting) {
    RankView view;
    view.record.host = ShortText<64>("node7");
    view.record.pid = 4711;
    view.record.phase = ShortText<16>("step");
    view.record.step = 12;
    view.record.axis = ShortText<24>(name_of(axis));
    view.record.operation = ShortText<16>("all_reduce");
    view.record.number = number;
    view.record.waiting = waiting ? 1 : 0;
    view.record.started[static_cast<std::size_t>(axis)] = number;
    return view;
}

RankView in_world(std::int64_t number) {
    RankView view = at(Axis::dp, 0, true);
    view.record.axis = ShortText<24>("world");
    view.record.number = view.record.world_operations = number;
    return view;
}

constexpr MeshShape four_dp = {.data = 4};

}  // namespace

TEST_CASE("a rank without a sign of life is to blame, whatever others do") {
    std::vector<RankView> ranks(4, at(Axis::dp, 8, true));
    ranks[1].record.waiting = 0;
    ranks[2].alive = ranks[3].alive = false;
    CHECK(find_culprit(ranks, four_dp) == Culprit{2, HangCause::lost});
}

TEST_CASE("the rank that does not wait holds up those that do") {
    std::vector<RankView> ranks(4, at(Axis::dp, 8, true));
    ranks[3] = at(Axis::dp, 7, false);
    CHECK(find_culprit(ranks, four_dp) == Culprit{3, HangCause::busy});
}

TEST_CASE("of ranks that do not wait the one is to blame for which others wait") {
    // tp 2 x dp 2: ranks 0 and 1 are one tp group, 2 and 3 the other.
    const MeshShape mesh = {.data = 2, .tensor = 2};
    std::vector<RankView> ranks(4, at(Axis::tp, 5, false));
    ranks[2] = at(Axis::tp, 6, true);
    CHECK(find_culprit(ranks, mesh) == Culprit{3, HangCause::busy});
    // No rank is known to wait for either, so the lower one is to blame.
    ranks[2] = at(Axis::tp, 5, false);
    CHECK(find_culprit(ranks, mesh) == Culprit{0, HangCause::busy});
}

TEST_CASE("where all wait, the chain of those behind leads to the one to blame") {
    const MeshShape mesh = {.data = 2, .tensor = 2};
    // 0 and 2 share dp, 2 and 3 tp: 0 waits for 2, which waits for 3, which has left out an
    // operation and waits in the session's own.
    std::vector<RankView> ranks = {at(Axis::dp, 4, true), in_world(9), at(Axis::tp, 6, true),
                                   in_world(9)};
    ranks[0].record.world_operations = ranks[2].record.world_operations = 9;
    ranks[2].record.started[static_cast<std::size_t>(Axis::dp)] = 3;
    ranks[3].record.started[static_cast<std::size_t>(Axis::tp)] = 5;
    CHECK(find_culprit(ranks, mesh) == Culprit{3, HangCause::behind});
    // 3 waits for 0, which has not reached the session's operation: a cycle.
    ranks[0].record.world_operations = 8;
    CHECK(find_culprit(ranks, mesh).cause == HangCause::cycle);
}

TEST_CASE("where all wait and none is behind, that is said") {
    const std::vector<RankView> ranks(4, at(Axis::dp, 8, true));
    CHECK(find_culprit(ranks, four_dp) == Culprit{0, HangCause::unknown});
}

TEST_CASE("middle stages take no part in operations of both ends") {
    const MeshShape mesh = {.pipeline = 3};
    std::vector<RankView> ranks(3, at(Axis::embedding_ends, 2, true));
    ranks[1] = at(Axis::pp, 2, true);
    ranks[1].record.started = {};  // in a channel
    CHECK(find_culprit(ranks, mesh).cause == HangCause::unknown);
    ranks[2] = in_world(1);
    ranks[0].record.world_operations = ranks[1].record.world_operations = 1;
    CHECK(find_culprit(ranks, mesh) == Culprit{2, HangCause::behind});
}

TEST_CASE("the message names rank, place, host, process, step, action and operation") {
    std::vector<RankView> ranks(4, at(Axis::dp, 8, true));
    ranks[3] = at(Axis::dp, 7, false);
    ranks[3].record.action = ShortText<64>("BW of microbatch 3");
    ranks[3].alive = false;
    const std::string said =
        hang_message(ranks, four_dp, "its process is stopped", {.seconds = 30, .hang_seconds = 30});
    CAPTURE(said);
    CHECK(
        said.starts_with("hang: rank 3 (dp 3 pp 0 cp 0 tp 0) on node7, process 4711, "
                         "shows no sign of life (its process is stopped); last seen in "
                         "step 12, BW of microbatch 3, after all_reduce 7 on dp; "));
    CHECK(contains(said, "no rank has moved for 30 s"));
}

TEST_CASE("the table of thousands of ranks is short") {
    std::vector<RankView> ranks(3072, at(Axis::dp, 8, true));
    ranks[17] = at(Axis::dp, 7, false);
    for (int rank = 2000; rank < 2008; ++rank)
        ranks[static_cast<std::size_t>(rank)].alive = false;
    const auto lines = hang_table(ranks);
    REQUIRE(lines.size() == 3);
    CHECK(lines[0] == "ranks 0-16, 18-1999, 2008-3071: step 12, waits in all_reduce 8 on dp");
    CHECK(lines[1] == "ranks 2000-2007: step 12, waits in all_reduce 8 on dp (no sign of life)");
    CHECK(lines[2] == "rank 17: step 12, after all_reduce 7 on dp");

    for (int rank = 0; rank < 100; ++rank)
        ranks[static_cast<std::size_t>(rank)] = at(Axis::dp, 100 + rank, false);
    CHECK(hang_table(ranks).size() == 41);
    CHECK(hang_table(ranks).back() == "... and 62 more places");
}

}  // namespace gptrain::test
