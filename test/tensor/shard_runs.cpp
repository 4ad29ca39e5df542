// Runs of a shard, and the blocks of the whole tensor that it covers.
#include "tensor/shard_runs.h"

#include "catch.h"

using namespace gptrain;

TEST_CASE("runs place every element of a box where its shard does", "[tensor]") {
    const Shard shard =
        GENERATE(Shard::whole("w", {3, 4, 5}), Shard{"w", {3, 4, 5}, {{1, 0, 0}, {2, 4, 5}}},
                 Shard{"w", {3, 4, 6}, {{0, 2, 0}, {3, 2, 6}}},
                 Shard{"w", {3, 4, 6}, {{0, 0, 3}, {3, 4, 3}}}, Shard{"w", {7}, {{4}, {3}}});
    const ShardRuns runs = runs_of(shard);
    for (std::int64_t i = 0; i < shard.box.extent.elements(); ++i)
        CHECK(runs.index(i) == shard.global_index(i));
}

TEST_CASE("a shard of blocks is the same part of the tensor", "[tensor]") {
    const std::int64_t values = GENERATE(1, 2);
    // Blocks of 8, in matrices whose rows are whole blocks or not, cut in rows and in columns.
    Shard shard = GENERATE(Shard::whole("w", {6, 16}), Shard::whole("w", {5, 7}),
                           Shard{"w", {6, 16}, {{2, 0}, {2, 16}}, 8, 24},
                           Shard{"w", {6, 16}, {{0, 8}, {6, 8}}, 16, 40},
                           Shard{"w", {10, 12}, {{4, 0}, {6, 12}}, 0, 72},
                           Shard{"w", {3, 4, 6}, {{0, 0, 0}, {3, 4, 6}}, 8, 72},
                           Shard{"w", {3, 4, 6}, {{1, 0, 0}, {1, 4, 6}}, 0, 24});
    if (shard.flat_end == 0) shard.flat_end = shard.box.extent.elements();
    const Shard blocks = block_shard(shard, 8, values);
    CAPTURE(shard.global.to_text(), blocks.global.to_text());
    CHECK(blocks.global.elements() == (shard.global.elements() + 7) / 8 * values);
    for (std::int64_t i = shard.flat_begin; i < shard.flat_end; ++i) {
        const std::int64_t at = (i - shard.flat_begin) / 8 * values + blocks.flat_begin;
        REQUIRE(at < blocks.flat_end);
        CHECK(blocks.global_index(at) == shard.global_index(i) / 8 * values);
    }
}

TEST_CASE("a shard that begins inside a block is a bug", "[tensor]") {
    Shard shard = Shard::whole("w", {6, 16});
    shard.flat_begin = 4;
    CHECK_THROWS_AS(block_shard(shard, 8, 1), Error);
    CHECK_THROWS_AS(block_shard({"w", {6, 16}, {{0, 4}, {6, 4}}, 0, 24}, 8, 1), Error);
}
