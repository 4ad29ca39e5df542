// Times by measured ops and messages, by hand.
#include <cmath>

#include "catch.h"
#include "hardware/measured_time.h"
#include "hardware/message_time.h"

namespace gptrain::test {
namespace {

MeasuredOp rope(double bytes, double seconds, std::int64_t threads = 1) {
    return {.op = "rope", .threads = threads, .bytes = bytes, .seconds = seconds};
}

OpWork rope_of(double bytes) {
    return {.name = "rope", .bytes = bytes};
}

double seconds(const std::vector<MeasuredOp>& measured, const OpWork& op, double cores = 1) {
    return measured_op_seconds(measured, op, cores).value();
}

}  // namespace

TEST_CASE("a measured op has its own time, one between two sizes a rate between theirs") {
    const std::vector<MeasuredOp> measured = {rope(1000, 10), rope(4000, 10)};
    CHECK(seconds(measured, rope_of(1000)) == Approx(10));
    CHECK(seconds(measured, rope_of(4000)) == Approx(10));
    // In the middle of the logarithmic scale: the geometric mean of 100 and 400 bytes/s.
    CHECK(seconds(measured, rope_of(2000)) == Approx(2000 / 200.0));
    CHECK(seconds(measured, rope_of(1e9)) == Approx(1e9 / 200).epsilon(0.2));
}

TEST_CASE("an op that was not measured has no measured time") {
    const std::vector<MeasuredOp> measured = {rope(1000, 10)};
    CHECK_FALSE(measured_op_seconds(measured, {.name = "add", .bytes = 1000}, 1));
    OpWork half = rope_of(1000);
    half.dtype = DType::bf16;
    CHECK_FALSE(measured_op_seconds(measured, half, 1));
    CHECK_FALSE(measured_op_seconds({}, rope_of(1000), 1));
}

TEST_CASE("the nearest GEMM by all of its sizes sets the rate") {
    MeasuredOp wide = {.op = "linear_forward", .rows = 100, .cols = 1000, .length = 10};
    wide.flops = 2e6;
    wide.bytes = 1e6;
    wide.seconds = 2;
    MeasuredOp tall = wide;
    std::swap(tall.rows, tall.cols);
    tall.seconds = 4;
    OpWork op = {.kind = OpWork::Kind::gemm,
                 .name = "linear_forward",
                 .rows = 1000,
                 .cols = 100,
                 .length = 10,
                 .flops = 2e6,
                 .bytes = 1e6};
    CHECK(seconds({wide, tall}, op) == Approx(4));
    std::swap(op.rows, op.cols);
    CHECK(seconds({wide, tall}, op) == Approx(2));
}

TEST_CASE("a rank has a thread for each whole core, or takes turns") {
    const std::vector<MeasuredOp> measured = {rope(1000, 10), rope(1000, 6, 2)};
    CHECK(seconds(measured, rope_of(1000), 1.5) == Approx(10));
    CHECK(seconds(measured, rope_of(1000), 2) == Approx(6));
    CHECK(seconds(measured, rope_of(1000), 4) == Approx(3));
    CHECK(seconds(measured, rope_of(1000), 0.25) == Approx(40));
}

TEST_CASE("messages between measured sizes") {
    NodeProfile node;
    node.devices = 4;
    node.link = {.bandwidth = 1, .latency = 1};
    node.link.measured = {{"all_reduce", 100, 1}, {"all_reduce", 10000, 4}, {"recv", 100, 5}};
    const auto seconds = [&](std::int64_t ranks, std::string_view operation, double sent) {
        return message_seconds(node, {.size = ranks, .per_node = ranks}, operation, sent);
    };
    CHECK(seconds(2, "all_reduce", 200) == Approx(2 * 1));
    CHECK(seconds(2, "all_reduce", 2 * 1000) == Approx(2 * 2));
    CHECK(seconds(4, "all_reduce", 6 * 1000) == Approx(6 * 2));
    CHECK(seconds(2, "all_reduce", 2) == Approx(2 * 1));
    CHECK(seconds(2, "all_reduce", 2 * 20000) == Approx(2 * 8));
    CHECK(seconds(2, "send", 100) == Approx(5));
    // Not measured: the link's figures.
    CHECK(seconds(2, "all_gather", 100) == Approx(101));
}

}  // namespace gptrain::test
