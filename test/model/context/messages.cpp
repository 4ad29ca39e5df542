// What ranks that share the sequence send, compute and allocate, by the meter.
#include <vector>

#include "catch.h"
#include "context_case.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

/// Bytes of this many heads of one rank's rows.
std::int64_t bytes_of(const ContextCase& c, int ranks, std::int64_t heads, DType dtype) {
    return c.sequences * (c.seq_length / ranks) * heads * c.head_dim * size_of(dtype);
}

std::vector<ContextCost> measure_all(const ContextCase& c, int ranks) {
    std::vector<ContextCost> costs;
    for (int rank = 0; rank < ranks; ++rank)
        costs.push_back(measure(c, ranks, rank));
    return costs;
}

}  // namespace

TEST_CASE("a ring sends keys and values once to every other rank", "[context]") {
    ContextCase c;
    c.dtype = GENERATE(DType::f32, DType::bf16);
    c.documents = GENERATE(false, true);
    const int ranks = GENERATE(1, 2, 3, 4, 8);
    const std::int64_t keys = bytes_of(c, ranks, 2 * c.groups, c.dtype);
    const std::int64_t gradients = bytes_of(c, ranks, 2 * c.groups, DType::f32);
    for (const ContextCost& cost : measure_all(c, ranks)) {
        CHECK(cost.sent_forward == (ranks - 1) * keys);
        CHECK(cost.sent_backward == (ranks - 1) * (keys + gradients));
    }
}

TEST_CASE("an exchange of heads sends all but the own share", "[context]") {
    ContextCase c;
    c.method = ContextMethod::all_to_all;
    c.dtype = GENERATE(DType::f32, DType::bf16);
    c.documents = GENERATE(false, true);
    const int ranks = GENERATE(1, 2, 3, 4, 8);
    c.heads = 2 * ranks;
    c.groups = ranks;
    const auto others = [&](std::int64_t heads) {
        return bytes_of(c, ranks, heads, c.dtype) / ranks * (ranks - 1);
    };
    const std::int64_t packed = c.heads + 2 * c.groups;
    const std::int64_t documents =
        c.documents ? c.sequences * (c.seq_length / ranks) * 4 * (ranks - 1) : 0;
    for (const ContextCost& cost : measure_all(c, ranks)) {
        CHECK(cost.sent_forward == others(packed + c.heads) + documents);
        CHECK(cost.sent_backward == others(2 * c.heads + packed) + documents);
    }
}

TEST_CASE("all ranks that share a sequence have the same work and memory", "[context]") {
    ContextCase c;
    c.method = GENERATE(ContextMethod::ring, ContextMethod::all_to_all);
    const int ranks = GENERATE(2, 3, 4, 8);
    c.heads = 2 * ranks;
    c.groups = ranks;
    c.bidirectional = GENERATE(false, true);
    const double alone = measure(c, 1, 0).work;
    for (const ContextCost& cost : measure_all(c, ranks)) {
        CHECK(cost.work * ranks == alone);
        CHECK(cost.memory == measure(c, ranks, 0).memory);
    }
}

TEST_CASE("bidirectional attention has the work of all pairs", "[context]") {
    ContextCase c;
    c.method = GENERATE(ContextMethod::ring, ContextMethod::all_to_all);
    const int ranks = GENERATE(1, 2);
    const double causal = measure(c, ranks, 0).work;
    c.bidirectional = true;
    const auto length = static_cast<double>(c.seq_length);
    CHECK(measure(c, ranks, 0).work * (length + 1) / 2 == causal * length);
}

TEST_CASE("heads that do not divide among the ranks are refused", "[context]") {
    ContextCase c;
    c.method = ContextMethod::all_to_all;
    CHECK_THROWS_AS(measure(c, 4, 0), Error);  // 2 groups
    c.groups = 4;
    CHECK_NOTHROW(measure(c, 4, 0));
    CHECK_THROWS_AS(measure(c, 8, 0), Error);
}
