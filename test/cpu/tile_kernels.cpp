// The tile kernels of every instruction set that this machine has; the program itself uses only one
// of them.
#include "cpu/tile_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "catch.h"

namespace gptrain::cpu {
namespace {

struct Named {
    std::string name;
    TileKernels kernels;
};

std::vector<Named> runnable_kernels() {
    std::vector<Named> all = {{"avx2", avx2_tile_kernels()}};
    if (__builtin_cpu_supports("avx512f")) all.push_back({"avx512", avx512_tile_kernels()});
    if (__builtin_cpu_supports("avx512bf16"))
        all.push_back({"avx512 bf16", avx512_bf16_tile_kernels()});
    return all;
}

/// Multiples of 1/8 in [-1, 1): products and short sums of them are exact.
std::vector<float> eighths(std::int64_t count, std::uint32_t stream) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto word = philox({static_cast<std::uint32_t>(i), 0, 0, 0}, {stream, 0})[0];
        values[i] = static_cast<float>(static_cast<int>(word % 16) - 8) / 8;
    }
    return values;
}

std::vector<Bf16> rounded(const std::vector<float>& values) {
    std::vector<Bf16> result;
    for (const float value : values)
        result.push_back(to_bf16(value));
    return result;
}

void check_product(const TileKernels& kernels, std::int64_t rows, std::int64_t cols,
                   std::int64_t length, bool a_by_columns) {
    constexpr std::int64_t gap = 16;
    const std::int64_t stride = cols + gap;
    const auto a = eighths(rows * length, 1);
    const auto b = eighths(length * stride, 2);
    auto c = eighths(rows * stride, 3);
    const TileView left = {a.data(), a_by_columns ? 1 : length, a_by_columns ? rows : 1};
    // Exactly the room that the kernels promise to use for the operands, followed by values that
    // must not change.
    constexpr float untouched = 77;
    const auto packed_size = [](std::int64_t size, std::int64_t other) {
        return round_up(size, tile_unit) * round_up(other, tile_unit) / 2;
    };
    std::vector<float> a_memory(packed_size(rows, length) + 1, untouched);
    std::vector<float> b_memory(packed_size(length, cols) + 1, untouched);
    const TileOperand a_operand = kernels.left(left, rows, length, a_memory.data());
    const auto b_rows = rounded(b);
    const TileOperand b_operand =
        kernels.right_rows == nullptr
            ? TileOperand{b.data(), 0, stride}
            : kernels.right_rows({b_rows.data(), stride, length, cols}, b_memory.data());
    CHECK(a_memory.back() == untouched);
    CHECK(b_memory.back() == untouched);
    for (const bool accumulate : {true, false}) {
        const float scale = accumulate ? 1 : 0.25f;
        auto expected = c;
        for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t j = 0; j < cols; ++j) {
                float sum = accumulate ? c[i * stride + j] : 0;
                for (std::int64_t p = 0; p < length; ++p)
                    sum += a[i * left.row + p * left.col] * b[p * stride + j];
                expected[i * stride + j] = scale * sum;
            }
        }
        kernels.multiply({.a = a_operand,
                          .b = b_operand,
                          .c = c.data(),
                          .c_row = stride,
                          .rows = rows,
                          .cols = cols,
                          .length = length,
                          .accumulate = accumulate,
                          .scale = scale});
        CHECK(c == expected);
    }
}

void check_packed_rows(const TileKernels& kernels, std::int64_t count, std::int64_t dim) {
    const std::int64_t stride = dim + 5;
    const std::int64_t width = round_up(dim, tile_unit);
    const auto rows = rounded(eighths((count + 1) * stride, 5));
    const TileRows<Bf16> given = {rows.data(), stride, count, dim};
    const auto element = [&](std::int64_t i, std::int64_t d) -> std::uint32_t {
        return i < count && d < dim ? rows[i * stride + d].bits : 0;
    };
    // Values that must not change follow the operand.
    constexpr std::uint32_t untouched = 77;
    std::vector<std::uint32_t> left, right;
    for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t d = 0; d < width; d += 2)
            left.push_back(element(i, d) | element(i, d + 1) << 16);
    for (std::int64_t i = 0; i < count; i += 2)
        for (std::int64_t d = 0; d < width; ++d)
            right.push_back(element(i, d) | element(i + 1, d) << 16);
    for (auto* expected : {&left, &right}) {
        expected->push_back(untouched);
        std::vector<std::uint32_t> memory(expected->size(), untouched);
        const auto pack = expected == &left ? kernels.left_rows : kernels.right_rows;
        pack(given, reinterpret_cast<float*>(memory.data()));
        CHECK(memory == *expected);
    }
}

}  // namespace

TEST_CASE("rows are packed as pairs, padded with zeros") {
    for (const Named& set : runnable_kernels()) {
        if (set.kernels.left_rows == nullptr) continue;
        for (const std::int64_t count : {1, 2, 5, 64}) {
            for (const std::int64_t dim : {1, 15, 16, 17, 64, 80}) {
                CAPTURE(count, dim);
                check_packed_rows(set.kernels, count, dim);
            }
        }
    }
}

TEST_CASE("tile products of every size are exact") {
    for (const Named& set : runnable_kernels()) {
        INFO(set.name);
        for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 12, 17, 64}) {
            for (const std::int64_t cols : {16, 32, 48, 64, 80, 112}) {
                for (const std::int64_t length : {1, 3, 64, 65, 133}) {
                    check_product(set.kernels, rows, cols, length, false);
                    check_product(set.kernels, rows, cols, length, true);
                }
            }
        }
    }
}

TEST_CASE("softmax over tiles is softmax over all keys") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr std::int64_t keys = 40;
    const auto scores = eighths(2 * keys * tile_size, 4);
    // Query i sees the keys from i on. In the second tile, queries from 16 on see none.
    std::vector<float> first(tile_size), last(tile_size), none(tile_size, -1);
    for (std::int64_t i = 0; i < tile_size; ++i) {
        first[i] = static_cast<float>(i);
        last[i] = i < 16 ? keys - 1 : -1;
    }
    for (const Named& set : runnable_kernels()) {
        INFO(set.name);
        std::vector<float> maximum(tile_size, -infinity), sum(tile_size, 0), rescale(tile_size);
        auto memory = scores;
        ScoreTile tile = {memory.data(), keys, tile_size, first.data(), last.data(), nullptr};
        set.kernels.softmax(tile, {maximum.data(), sum.data(), rescale.data()});
        tile.scores = memory.data() + keys * tile_size;
        tile.first = none.data();
        set.kernels.softmax(tile, {maximum.data(), sum.data(), rescale.data()});
        for (std::int64_t i = 0; i < tile_size; ++i) {
            CAPTURE(i);
            if (i >= 16) {
                CHECK(maximum[i] == -infinity);
                CHECK(sum[i] == 0);
                CHECK(memory[i] == 0);
                continue;
            }
            double largest = -1e9, total = 0;
            const auto each_visible = [&](const auto& f) {
                for (std::int64_t key = i; key < 2 * keys; ++key)
                    f(static_cast<double>(scores[key * tile_size + i]));
            };
            each_visible([&](double score) { largest = std::max(largest, score); });
            each_visible([&](double score) { total += std::exp(score - largest); });
            CHECK(maximum[i] == largest);
            // 80 terms, each within 4 ulps of fp32, and their sum.
            CHECK(sum[i] == Approx(total).epsilon(84 * 0x1p-24));
            CHECK(memory[(keys + 1) * tile_size + i] ==
                  Approx(std::exp(scores[(keys + 1) * tile_size + i] - largest)).epsilon(0x1p-21));
        }
    }
}

TEST_CASE("scores of a tile are capped and lowered by their distance") {
    constexpr std::int64_t keys = 5;
    constexpr double cap = 0.75;
    constexpr double slope = 0.125;
    const auto scores = eighths(keys * tile_size, 6);
    for (const Named& set : runnable_kernels()) {
        INFO(set.name);
        auto memory = scores;
        std::vector<float> slopes(scores.size());
        const ScoreTile tile = {memory.data(), keys, tile_size, nullptr, nullptr, nullptr};
        set.kernels.change(tile, {cap, slope, 3, slopes.data()});
        for (std::int64_t at = 0; at < std::ssize(scores); ++at) {
            CAPTURE(at);
            const double t = std::tanh(scores[at] / cap);
            const auto distance = static_cast<double>(3 + at % tile_size - at / tile_size);
            // The bias is exact; the rest is within 8 units in the last place.
            const double right = cap * t - slope * distance;
            const double size = 1 + std::abs(slope * distance);
            CHECK(std::abs(memory[at] - right) <= 16 * 0x1p-24 * size);
            CHECK(std::abs(slopes[at] - (1 - t * t)) <= 32 * 0x1p-24);
        }
    }
}

}  // namespace gptrain::cpu
