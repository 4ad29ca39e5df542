// Which positions each rank has.
#include <numeric>

#include "catch.h"
#include "model/sequence.h"

using namespace gptrain;

namespace {

using Slices = std::vector<SequenceSlice>;

/// The number of pairs of a query of these slices and a key that it sees.
std::int64_t visible_pairs(const Slices& slices) {
    std::int64_t pairs = 0;
    for (const SequenceSlice& slice : slices) {
        for (std::int64_t i = 0; i < slice.length; ++i)
            pairs += slice.begin + i + 1;
    }
    return pairs;
}

}  // namespace

TEST_CASE("every position is on one rank", "[context]") {
    const auto method = GENERATE(ContextMethod::ring, ContextMethod::all_to_all);
    const std::int64_t ranks = GENERATE(1, 2, 3, 4, 8);
    const std::int64_t length = 48;
    std::vector<int> owners(static_cast<std::size_t>(length));
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const Slices slices = context_slices(length, ranks, rank, method);
        CHECK(length_of(slices) == length / ranks);
        for (const SequenceSlice& slice : slices) {
            for (std::int64_t i = 0; i < slice.length; ++i)
                ++owners.at(static_cast<std::size_t>(slice.begin + i));
        }
    }
    CHECK(owners == std::vector<int>(static_cast<std::size_t>(length), 1));
}

TEST_CASE("a ring gives each rank an early and a late slice", "[context]") {
    using enum ContextMethod;
    CHECK(context_slices(24, 3, 0, ring) == Slices{{0, 4}, {20, 4}});
    CHECK(context_slices(24, 3, 2, ring) == Slices{{8, 4}, {12, 4}});
    CHECK(context_slices(24, 3, 2, all_to_all) == Slices{{16, 8}});
    CHECK(context_slices(7, 1, 0, ring) == Slices{{0, 7}});
    CHECK(context_slices(7, 1, 0, all_to_all) == Slices{{0, 7}});
    for (std::int64_t rank = 0; rank < 4; ++rank) {
        CHECK(visible_pairs(context_slices(64, 4, rank, ring)) * 4 == 64 * 65 / 2);
    }
    CHECK_THROWS_AS(context_slices(20, 8, 0, ring), Error);
    CHECK_THROWS_AS(context_slices(20, 8, 0, all_to_all), Error);
    CHECK_THROWS_AS(context_slices(24, 3, 3, ring), Error);
}

TEST_CASE("the positions of rows", "[context]") {
    const auto method = GENERATE(ContextMethod::ring, ContextMethod::all_to_all);
    const Slices slices = context_slices(48, 4, 1, method);
    const RowPositions rows = rows_of(slices);
    std::int64_t row = 0;
    for (const SequenceSlice& slice : slices) {
        for (std::int64_t i = 0; i < slice.length; ++i)
            CHECK(rows.position(row++) == slice.begin + i);
    }
}

TEST_CASE("part of a rank's rows is slices again", "[context]") {
    const Slices slices = context_slices(48, 4, 1, ContextMethod::ring);
    REQUIRE(slices == Slices{{6, 6}, {36, 6}});
    CHECK(slices_of_rows(slices, 0, 12) == slices);
    CHECK(slices_of_rows(slices, 0, 4) == Slices{{6, 4}});
    CHECK(slices_of_rows(slices, 4, 4) == Slices{{10, 2}, {36, 2}});
    CHECK(slices_of_rows(slices, 6, 3) == Slices{{36, 3}});
    CHECK(slices_of_rows(slices, 8, 4) == Slices{{38, 4}});
    CHECK_THROWS_AS(slices_of_rows(slices, 8, 5), Error);
}

TEST_CASE("tp ranks share each stripe of a cp rank's rows", "[context]") {
    const auto method = GENERATE(ContextMethod::ring, ContextMethod::all_to_all);
    const Slices slices = context_slices(96, 2, 1, method);
    const RowPositions whole = rows_of(slices);
    for (const std::int64_t stripes : {1, 2, 4}) {
        for (std::int64_t tensor_rank = 0; tensor_rank < 3; ++tensor_rank) {
            CAPTURE(stripes, tensor_rank);
            const StreamSlice part = {.index = tensor_rank, .count = 3, .stripes = stripes};
            const RowPositions rows = rows_of(slices, part);
            const std::int64_t length = 48 / stripes / 3;
            CHECK(part.stripe_rows(48) == length);
            for (std::int64_t row = 0; row < 16; ++row) {
                const std::int64_t from = part.first_row(48, row / length) + row % length;
                CHECK(rows.position(row) == whole.position(from));
                CHECK(from / length % 3 == tensor_rank);
            }
        }
    }
}

TEST_CASE("a rank's part of whole sequences", "[context]") {
    std::vector<int> whole(2 * 12);
    std::iota(whole.begin(), whole.end(), 100);
    const auto part = [&](std::int64_t rank, ContextMethod method) {
        return local_part<int>(whole, 12, context_slices(12, 3, rank, method));
    };
    CHECK(part(1, ContextMethod::ring) == std::vector<int>{102, 103, 108, 109, 114, 115, 120, 121});
    CHECK(part(1, ContextMethod::all_to_all) ==
          std::vector<int>{104, 105, 106, 107, 116, 117, 118, 119});
    const Slices all = context_slices(12, 1, 0, ContextMethod::ring);
    CHECK(local_part<int>(whole, 12, all) == whole);
}
