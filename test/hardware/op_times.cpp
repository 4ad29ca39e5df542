// The time of ops, by hand.
#include "base/error.h"
#include "catch.h"
#include "hardware/op_time.h"

namespace gptrain::test {
namespace {

DeviceProfile device() {
    DeviceProfile device;
    device.memory_bandwidth = 100;
    device.memory_efficiency = 0.5;
    device.peak_flops = {.fp32 = 1000, .bf16 = 4000};
    device.gemm_efficiency = {{.fp32 = 0.5, .bf16 = 0.5}};
    device.attention = {{64, 100, 50}, {128, 200, 100}};
    return device;
}

OpWork gemm(std::int64_t rows, std::int64_t cols, std::int64_t length) {
    return {.kind = OpWork::Kind::gemm,
            .name = "linear_forward",
            .rows = rows,
            .cols = cols,
            .length = length,
            .flops = 2.0 * static_cast<double>(rows * cols * length)};
}

}  // namespace

TEST_CASE("a GEMM takes as long as its arithmetic or its traffic") {
    OpWork op = gemm(10, 10, 10);
    CHECK(op_seconds(device(), op) == Approx(2000 / 500.0));
    op.dtype = DType::bf16;
    CHECK(op_seconds(device(), op) == Approx(2000 / 2000.0));
    op.bytes = 500;
    CHECK(op_seconds(device(), op) == Approx(500 / 50.0));
}

TEST_CASE("a GEMM computes whole tiles in whole waves") {
    DeviceProfile tiled = device();
    tiled.multiprocessors = 4;
    tiled.gemm_tiles = {{.rows = 10, .cols = 10}};
    // Four tiles fill the device; a fifth one takes a second wave. Splitting the sum of five tiles
    // in four makes 20 parts, five waves of a quarter each.
    CHECK(op_seconds(tiled, gemm(20, 20, 10)) == Approx(8000 / 500.0));
    CHECK(op_seconds(tiled, gemm(50, 10, 10)) == Approx(5.0 / 4 * 8000 / 500));
    // A fill of ten elements makes splitting too expensive.
    tiled.gemm_fill = 40;
    CHECK(op_seconds(tiled, gemm(50, 10, 10)) == Approx(2 * 2 * 8000 / 500.0));
    // The faster of two tiles counts.
    tiled.gemm_fill = 0;
    tiled.gemm_tiles.push_back({.rows = 5, .cols = 10, .speed = 0.5});
    CHECK(op_seconds(tiled, gemm(5, 40, 10)) == Approx(4 * 1000 / 500.0 * 2));
}

TEST_CASE("the GEMMs of experts share waves") {
    DeviceProfile tiled = device();
    tiled.multiprocessors = 8;
    tiled.gemm_tiles = {{.rows = 10, .cols = 10}};
    // A fill that makes splitting the sum too expensive.
    tiled.gemm_fill = 4000;
    OpWork eight = gemm(10, 10, 10);
    eight.groups = 8;
    OpWork nine = eight;
    nine.groups = 9;
    const double wave = 2 * 10 * 10 * (10 + 1000) / (500.0 / 8);
    CHECK(op_seconds(tiled, eight) == Approx(wave));
    CHECK(op_seconds(tiled, nine) == Approx(2 * wave));
    // An expert with a single row takes a whole tile.
    OpWork small = gemm(1, 10, 10);
    small.groups = 9;
    CHECK(op_seconds(tiled, small) == op_seconds(tiled, nine));
}

TEST_CASE("messages that hold multiprocessors make a GEMM take more waves") {
    DeviceProfile device;
    device.memory_bandwidth = 1e30;
    device.peak_flops = {1, 1, 1, 1};
    device.attention = {{64, 1, 1}};
    device.multiprocessors = 132;
    device.gemm_tiles = {{.rows = 128, .cols = 128, .speed = 1}};
    device.gemm_fill = 1e6;  // sums are not split
    const auto times = [&](std::int64_t tiles) {
        const OpWork op = {.kind = OpWork::Kind::gemm,
                           .rows = 128 * tiles,
                           .cols = 128,
                           .length = 4096,
                           .flops = 1};
        return crowding(device, op, 16);
    };
    // All tiles at once, or one wave more, or as many waves as before with less in the last one.
    CHECK(times(100) == Approx(1));
    CHECK(times(132) == Approx(2));
    CHECK(times(4 * 132) == Approx(5.0 / 4));
    CHECK(times(140) == Approx(1));
    const OpWork attention = {.kind = OpWork::Kind::attention_forward};
    CHECK(crowding(device, attention, 16) == Approx(132.0 / 116));
    CHECK(crowding(device, attention, 0) == 1);
    device.gemm_crowding = 1.7;
    CHECK(crowding(device, {.kind = OpWork::Kind::gemm}, 4) == 1.7);
}

TEST_CASE("where a GEMM cannot end with GELU or its gradient, a kernel follows it") {
    OpWork op = gemm(10, 10, 10);
    op.gelu_gradient_bytes = 100;
    CHECK(op_seconds(device(), op) == Approx(2000 / 500.0));
    DeviceProfile apart = device();
    apart.fuses_gelu_gradient = false;
    CHECK(op_seconds(apart, op) == Approx(2000 / 500.0 + 100 / 50.0));
    op.gelu_bytes = 200;
    CHECK(op_seconds(apart, op) == Approx(2000 / 500.0 + 300 / 50.0));
    apart.fuses_gelu = true;
    CHECK(op_seconds(apart, op) == Approx(2000 / 500.0 + 100 / 50.0));
}

TEST_CASE("attention has the rate of the nearest head size and falls off for short sequences") {
    DeviceProfile short_is_slow = device();
    OpWork op = {
        .kind = OpWork::Kind::attention_forward, .length = 100, .head_dim = 60, .flops = 1000};
    CHECK(op_seconds(short_is_slow, op) == Approx(10));
    op.head_dim = 128;
    CHECK(op_seconds(short_is_slow, op) == Approx(5));
    op.fp8_bytes = 100;
    CHECK(op_seconds(short_is_slow, op) == Approx(5 + 100 / 50.0));
    op.fp8_bytes = 0;
    op.kind = OpWork::Kind::attention_backward;
    CHECK(op_seconds(short_is_slow, op) == Approx(10));
    short_is_slow.attention_half_length = 100;
    CHECK(op_seconds(short_is_slow, op) == Approx(20));
}

TEST_CASE("the fill of a GEMM takes fewer elements of a larger type") {
    DeviceProfile tiled = device();
    tiled.gemm_tiles = {{.rows = 10, .cols = 10}};
    tiled.gemm_fill = 80;
    OpWork op = gemm(10, 10, 10);
    CHECK(op_seconds(tiled, op) == Approx(200 * (10 + 20) / 500.0));
    op.dtype = DType::bf16;
    CHECK(op_seconds(tiled, op) == Approx(200 * (10 + 40) / 2000.0));
}

TEST_CASE("the slowest of more devices is slower") {
    CHECK(slowest(0, 1000) == 1);
    CHECK(slowest(0.1, 1) == 1);
    // Tables of normal order statistics: 0.564 of two, 2.508 of a hundred, 3.241 of a thousand.
    CHECK(slowest(0.1, 2) == Approx(1.0564).margin(0.003));
    CHECK(slowest(0.1, 100) == Approx(1.2508).margin(0.003));
    CHECK(slowest(0.1, 1000) == Approx(1.3241).margin(0.003));
}

TEST_CASE("a GEMM of fewer rows than measured ones takes the time of its traffic") {
    DeviceProfile measured = device();
    OpWork op = gemm(128, 10, 10);
    op.bytes = 1000;
    measured.measured = {{.op = "linear_forward",
                          .rows = 128,
                          .cols = 10,
                          .length = 10,
                          .flops = op.flops,
                          .bytes = op.bytes,
                          .seconds = 1}};
    CHECK(op_seconds(measured, op) == Approx(1));
    op = gemm(1, 10, 10);
    op.bytes = 400;
    CHECK(op_seconds(measured, op) == Approx(400 / 50.0));
    CHECK(op_seconds(measured, op, 2) == Approx(400 / 50.0 / 2));
    op.bytes = 0.01;  // less than its arithmetic takes
    CHECK(op_seconds(measured, op) == Approx(1.0 / 128));
}

TEST_CASE("other ops move bytes, some at their own bandwidth") {
    DeviceProfile own = device();
    own.op_seconds = 1;
    const OpWork op = {.name = "rope", .bytes = 100};
    CHECK(op_seconds(own, op) == Approx(1 + 2));
    own.op_bandwidths = {{"rope", 10}};
    CHECK(op_seconds(own, op) == Approx(1 + 10));
}

TEST_CASE("a device without a precision is named") {
    OpWork op = gemm(1, 1, 1);
    op.dtype = DType::f8e4m3;
    CHECK_THROWS_WITH(op_seconds(device(), op),
                      contains_text("fp8") && contains_text("peak_flops"));
}

}  // namespace gptrain::test
