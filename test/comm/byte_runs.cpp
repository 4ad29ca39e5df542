#include "comm/byte_runs.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "catch.h"

namespace gptrain {
namespace {

template <class T>
ByteRuns runs_in(std::vector<T>& values) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    return {reinterpret_cast<std::byte*>(values.data()), 1, bytes, bytes};
}

/// The result of reducing the parts.
template <class T>
std::vector<T> reduced(std::vector<std::vector<T>> parts, DType dtype, Reduce reduce) {
    std::vector<T> result(parts.front().size());
    std::vector<ByteRuns> from;
    for (std::vector<T>& part : parts)
        from.push_back(runs_in(part));
    reduce_runs(runs_in(result), from, dtype, reduce);
    return result;
}

}  // namespace

TEST_CASE("A tensor is one run for each index of the dims before the given one") {
    std::vector<float> memory(2 * 3 * 4 * 5);
    const Tensor x(reinterpret_cast<std::byte*>(memory.data()), DType::f32, {2, 3, 4, 5});
    const auto check = [](const ByteRuns& runs, std::int64_t count, std::int64_t elements,
                          std::int64_t stride) {
        CHECK(runs.count == count);
        CHECK(runs.bytes == 4 * elements);
        CHECK(runs.stride == 4 * stride);
    };
    check(runs_of(x, 0), 1, 120, 120);
    check(runs_of(x, 1), 2, 60, 60);
    check(runs_of(x, 2), 6, 20, 20);
    check(runs_of(x, -1), 24, 5, 5);

    const Tensor part = part_of(x, 2, 1, 2);
    check(runs_of(part, 2), 6, 10, 20);
    CHECK(runs_of(part, 2).data == x.data() + 10 * 4);
    CHECK_FALSE(runs_of(part, 2).contiguous());
    CHECK(runs_of(part_of(x, 0, 1, 2), 0).contiguous());
    CHECK_THROWS_AS(runs_of(part, 1), Error);
    CHECK_THROWS_AS(runs_of(x.slice(3, 0, 2), 2), Error);
    CHECK_THROWS_AS(runs_of(x.slice(1, 0, 2).slice(2, 0, 2), 3), Error);
    CHECK_THROWS_AS(part_of(x, 1, 0, 2), Error);
    check(runs_of(x.slice(2, 0, 0), 2), 6, 0, 20);
}

TEST_CASE("Sums are made in the order of the parts") {
    // In fp32, 1e8 swallows 1, so every order gives another sum.
    const std::vector<std::vector<float>> parts = {{1e8f, 1}, {1, 1e8f}, {-1e8f, -1e8f}, {1, 1}};
    std::vector<float> expected(2);
    for (std::size_t i = 0; i < 2; ++i)
        expected[i] = ((parts[0][i] + parts[1][i]) + parts[2][i]) + parts[3][i];
    CHECK(reduced(parts, DType::f32, Reduce::sum) == expected);
}

TEST_CASE("Sums of 16-bit floats are rounded once") {
    const auto sum = [](float a, float b, float c) {
        return to_float(
            reduced<Bf16>({{to_bf16(a)}, {to_bf16(b)}, {to_bf16(c)}}, DType::bf16, Reduce::sum)[0]);
    };
    // If sums were rounded after each addition, 256 + 1 would be 256 again.
    CHECK(sum(256, 1, 1) == 258);
    CHECK(to_float(reduced<F16>({{to_f16(2048)}, {to_f16(1)}, {to_f16(1)}}, DType::f16,
                                Reduce::sum)[0]) == 2050);
}

TEST_CASE("Maxima keep a NaN, integers wrap") {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const auto maxima =
        reduced<float>({{nan, 1, -3}, {2, nan, -1}, {1, 5, -2}}, DType::f32, Reduce::max);
    CHECK(std::isnan(maxima[0]));
    CHECK(std::isnan(maxima[1]));
    CHECK(maxima[2] == -1);
    const auto big = std::numeric_limits<std::int32_t>::max();
    CHECK(reduced<std::int32_t>({{big}, {1}}, DType::i32, Reduce::sum)[0] ==
          std::numeric_limits<std::int32_t>::min());
    CHECK(reduced<std::uint8_t>({{200}, {100}}, DType::u8, Reduce::sum)[0] == 44);
    CHECK_THROWS_AS(reduced<std::uint16_t>({{1}, {1}}, DType::u16, Reduce::sum), Error);
}

TEST_CASE("Runs with gaps are reduced and copied where they lie") {
    constexpr std::int64_t rows = 3;
    std::vector<std::int64_t> a(rows * 5000);
    std::vector<std::int64_t> b(rows * 4000);
    for (std::size_t i = 0; i < a.size(); ++i)
        a[i] = static_cast<std::int64_t>(i);
    for (std::size_t i = 0; i < b.size(); ++i)
        b[i] = 7 * static_cast<std::int64_t>(i);
    const ByteRuns wide = {reinterpret_cast<std::byte*>(a.data()), rows, 4000 * 8, 5000 * 8};
    const ByteRuns dense = contiguous_runs(reinterpret_cast<std::byte*>(b.data()), wide);
    const std::vector<ByteRuns> both = {wide, dense};
    reduce_runs(wide, both, DType::i64, Reduce::sum);
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < 5000; i += 37) {
            const std::int64_t own = row * 5000 + i;
            const std::int64_t other = i < 4000 ? 7 * (row * 4000 + i) : 0;
            REQUIRE(a[static_cast<std::size_t>(own)] == own + other);
        }
    }
    copy_runs(wide, dense);
    CHECK(a[5000 + 17] == 7 * (4000 + 17));
    CHECK(a[4999] == 4999);
}

}  // namespace gptrain
