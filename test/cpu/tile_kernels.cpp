// The tile kernels of every instruction set that this machine has; the program itself uses only one
// of them.
#include "cpu/tile_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/checked.h"
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

void check_product(const TileKernels& kernels, std::int64_t rows, std::int64_t cols,
                   std::int64_t length, bool a_by_columns) {
    constexpr std::int64_t gap = 16;
    const std::int64_t stride = cols + gap;
    const auto a = eighths(rows * length, 1);
    const auto b = eighths(length * stride, 2);
    auto c = eighths(rows * stride, 3);
    const TileView left = {a.data(), a_by_columns ? 1 : length, a_by_columns ? rows : 1};
    // Room for the operands as the kernels promise it; behind it stands what must stay.
    constexpr float untouched = 77;
    const auto packed_size = [](std::int64_t size, std::int64_t other) {
        return round_up(size, tile_unit) * round_up(other, tile_unit) / 2;
    };
    std::vector<float> a_memory(packed_size(rows, length) + 1, untouched);
    std::vector<float> b_memory(packed_size(length, cols) + 1, untouched);
    const TileOperand a_operand = kernels.left(left, rows, length, a_memory.data());
    const TileOperand b_operand =
        kernels.right({b.data(), stride, 1}, length, cols, b_memory.data());
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

}  // namespace

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

}  // namespace gptrain::cpu
