// The row kernels of every instruction set that this machine has; the program itself uses only one
// of them.
#include "cpu/row_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/philox.h"
#include "base/text.h"
#include "catch.h"

namespace gptrain::cpu {
namespace {

template <class T>
struct RowKernelSet {
    std::string name;
    RowKernels<T> kernels;
    bool flushes = false;  ///< results that are denormal numbers become 0
};

template <class T>
std::vector<RowKernelSet<T>> runnable_row_kernels() {
    std::vector<RowKernelSet<T>> all = {{"avx2", avx2_row_kernels<T>()}};
    if (__builtin_cpu_supports("avx512f")) all.push_back({"avx512", avx512_row_kernels<T>()});
    if constexpr (std::is_same_v<T, Bf16>)
        if (__builtin_cpu_supports("avx512bf16"))
            all.push_back({"avx512 bf16", avx512_bf16_row_kernels(), true});
    return all;
}

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Numbers in [-4, 4), each rounded to T.
template <class T>
std::vector<T> numbers(std::int64_t count, std::uint32_t stream) {
    std::vector<T> values;
    for (std::int64_t i = 0; i < count; ++i) {
        const auto word = philox({static_cast<std::uint32_t>(i), 0, 0, 0}, {stream, 0})[0];
        values.push_back(from_float<T>(static_cast<float>(word) * 0x1p-29f - 4));
    }
    return values;
}

/// The largest error of an element: the rounding to T, and a few roundings in fp32, of the element
/// itself and of 7, which some results are added to.
template <class T>
double bound(double value) {
    constexpr bool is_bf16 = std::is_same_v<T, Bf16>;
    const double rounding = std::is_same_v<T, float> ? 0 : is_bf16 ? 0x1p-8 : 0x1p-11;
    return std::abs(value) * (rounding + 0x1p-20) + 0x1p-21;
}

template <class T>
void check_close(const std::vector<T>& got, const auto& expected, std::int64_t count) {
    for (std::int64_t i = 0; i < std::ssize(got); ++i) {
        CAPTURE(i);
        // The memory behind the elements stays as it was.
        const double value = i < count ? expected(i) : 7;
        CHECK(std::abs(to_float(got[i]) - value) <= bound<T>(value));
    }
}

struct Curve {
    double value;
    double slope;
};

Curve curve(Activation activation, double u) {
    if (activation == Activation::relu) return {std::max(0.0, u), u > 0 ? 1.0 : 0.0};
    if (activation == Activation::gelu_erf) {
        const double below = std::erfc(-u / std::sqrt(2)) / 2;
        return {u * below, below + u * std::exp(-u * u / 2) / std::sqrt(2 * M_PI)};
    }
    const double root = std::sqrt(2 / M_PI);
    const double t = std::tanh(root * (u + 0.044715 * u * u * u));
    const double z_slope = root * (1 + 3 * 0.044715 * u * u);
    return {u * (1 + t) / 2, (1 + t) / 2 + u * (1 - t * t) / 2 * z_slope};
}

template <class T>
void check_activations(const RowKernels<T>& kernels, std::int64_t count) {
    const auto u = numbers<T>(count, 1);
    const auto dy = numbers<T>(count, 2);
    const std::vector<T> untouched(static_cast<std::size_t>(count + 3), from_float<T>(7));
    for (const auto activation : {Activation::gelu, Activation::gelu_erf, Activation::relu}) {
        const auto at = [&](std::int64_t i) { return curve(activation, to_float(u[i])); };
        auto y = untouched;
        kernels.activate(activation, u.data(), y.data(), count);
        check_close(
            y, [&](std::int64_t i) { return at(i).value; }, count);
        auto du = untouched;
        kernels.activate_backward(activation, u.data(), dy.data(), du.data(), count);
        check_close(
            du, [&](std::int64_t i) { return to_float(dy[i]) * at(i).slope; }, count);
    }
    const auto sums = numbers<float>(count, 3);
    auto to = untouched;
    kernels.times_gelu_slope(sums.data(), u.data(), true, to.data(), count);
    check_close(
        to,
        [&](std::int64_t i) { return 7 + sums[i] * curve(Activation::gelu, to_float(u[i])).slope; },
        count);
}

/// The value of a gated activation, and its slopes in both inputs.
struct GatedCurve {
    double value;
    double up_slope;
    double gate_slope;
};

GatedCurve gated_curve(Activation activation, double up, double gate) {
    const bool clamps = activation == Activation::clamped_swiglu;
    const double steepness = clamps ? 1.702 : 1;
    const double g = clamps ? std::min(gate, 7.0) : gate;
    const double u = clamps ? std::clamp(up, -7.0, 7.0) + 1 : up;
    const double s = 1 / (1 + std::exp(-steepness * g));
    const bool flat_up = clamps && std::abs(up) > 7;
    const bool flat_gate = clamps && gate > 7;
    return {u * g * s, flat_up ? 0 : g * s, flat_gate ? 0 : u * s * (1 + steepness * g * (1 - s))};
}

template <class T>
void check_gates(const RowKernels<T>& kernels, std::int64_t count) {
    // Those of clamped_swiglu reach beyond its limits, and to them.
    const auto inputs = [&](std::uint32_t stream, float factor) {
        auto values = numbers<T>(count, stream);
        for (T& x : values)
            x = from_float<T>(factor * to_float(x));
        if (factor > 1) values[static_cast<std::size_t>(count / 2)] = from_float<T>(7);
        return values;
    };
    const auto dy = numbers<T>(count, 6);
    for (const auto activation : {Activation::swiglu, Activation::clamped_swiglu}) {
        const float factor = activation == Activation::swiglu ? 1 : 3;
        const auto up = inputs(4, factor);
        const auto gate = inputs(5, factor);
        const auto at = [&](std::int64_t i) {
            return gated_curve(activation, to_float(up[i]), to_float(gate[i]));
        };
        std::vector<T> y(static_cast<std::size_t>(count + 3), from_float<T>(7));
        auto d_up = y;
        auto d_gate = y;
        kernels.gate(activation, up.data(), gate.data(), y.data(), count);
        check_close(
            y, [&](std::int64_t i) { return at(i).value; }, count);
        kernels.gate_backward(activation, up.data(), gate.data(), dy.data(), d_up.data(),
                              d_gate.data(), count);
        check_close(
            d_up, [&](std::int64_t i) { return to_float(dy[i]) * at(i).up_slope; }, count);
        check_close(
            d_gate, [&](std::int64_t i) { return to_float(dy[i]) * at(i).gate_slope; }, count);
    }
}

template <class T>
void check_norms(const RowKernels<T>& kernels, std::int64_t count) {
    auto row = numbers<T>(count, 8);
    row.push_back(from_float<T>(7));  // behind the row
    constexpr double eps = 0.25;
    for (const bool rms : {false, true}) {
        CAPTURE(rms);
        double mean = 0;
        double squares = 0;
        for (std::int64_t i = 0; i < count && !rms; ++i)
            mean += to_float(row[i]) / static_cast<double>(count);
        for (std::int64_t i = 0; i < count; ++i)
            squares += (to_float(row[i]) - mean) * (to_float(row[i]) - mean);
        const double rstd = 1 / std::sqrt(squares / static_cast<double>(count) + eps);
        const Moments moments = kernels.moments(row.data(), count, rms, static_cast<float>(eps));
        CHECK(std::abs(moments.mean - mean) <= 4 * 0x1p-20);
        CHECK(std::abs(moments.rstd - rstd) <= rstd * 0x1p-18);
        const auto weight = numbers<T>(count, 9);
        const auto bias = numbers<T>(count, 10);
        for (const T* shift : {bias.data(), static_cast<const T*>(nullptr)}) {
            std::vector<T> n(row.size(), from_float<T>(7));
            kernels.normalise(row.data(), moments, weight.data(), shift, n.data(), count);
            check_close(
                n,
                [&](std::int64_t i) {
                    const double x = (to_float(row[i]) - double{moments.mean}) * moments.rstd;
                    return x * to_float(weight[i]) + (shift == nullptr ? 0 : to_float(shift[i]));
                },
                count);
        }
    }
    const auto other = numbers<T>(count, 11);
    std::vector<T> sum(row.size(), from_float<T>(7));
    kernels.add(row.data(), other.data(), sum.data(), count);
    check_close(
        sum, [&](std::int64_t i) { return double{to_float(row[i])} + to_float(other[i]); }, count);
}

template <class T>
void check_softmax(const RowKernels<T>& kernels, std::int64_t count) {
    auto row = numbers<T>(count, 7);
    // Elements behind the row must not count, nor a 0 in their place.
    for (T& x : row)
        x = from_float<T>(to_float(x) - 8);
    row.push_back(from_float<T>(7));
    const auto logits = row;
    double largest = -1e9;
    double sum = 0;
    const auto exp_of = [&](std::int64_t i) { return std::exp(to_float(logits[i]) + 5.0); };
    for (std::int64_t i = 0; i < count; ++i) {
        largest = std::max<double>(largest, to_float(row[i]));
        sum += exp_of(i);
    }
    CHECK(kernels.maximum(row.data(), count) == static_cast<float>(largest));
    CHECK(std::abs(kernels.exp_sum(row.data(), -5, count) - sum) <=
          sum * static_cast<double>(count + 8) * 0x1p-24);
    kernels.scaled_exp(row.data(), -5, 0.5f, count);
    check_close(
        row, [&](std::int64_t i) { return exp_of(i) / 2; }, count);
}

template <class T>
void check_soft_cap(const RowKernels<T>& kernels, std::int64_t count) {
    auto x = numbers<T>(count, 8);
    x.push_back(from_float<T>(7));  // behind the row
    auto row = x;
    kernels.soft_cap(row.data(), 2, count);
    check_close(
        row, [&](std::int64_t i) { return 2 * std::tanh(double{to_float(x[i])} / 2); }, count);
    row = x;
    kernels.capped_exp(row.data(), 1, 0.5f, 64, count);
    check_close(
        row,
        [&](std::int64_t i) {
            const double value = to_float(x[i]);
            return std::exp(value - 1) / 2 * (1 - value * value / 4096);
        },
        count);
}

template <class T>
void check_int8(const RowKernels<T>& kernels, std::int64_t count) {
    constexpr float scale = 0.37f;
    std::vector<std::int8_t> values;
    std::vector<T> expected;
    for (std::int64_t i = 0; i < count; ++i) {
        values.push_back(static_cast<std::int8_t>(i * 37 % 255 - 127));
        expected.push_back(from_float<T>(scale * static_cast<float>(values.back())));
    }
    expected.push_back(from_float<T>(7));  // behind the row
    std::vector<T> row(expected.size(), from_float<T>(7));
    kernels.from_int8(values.data(), scale, row.data(), count);
    CHECK(std::equal(row.begin(), row.end(), expected.begin(),
                     [](T a, T b) { return to_float(a) == to_float(b); }));
}

/// 2^-130 is a denormal number.
template <class T>
void check_special_values(const RowKernelSet<T>& set) {
    const RowKernels<T>& kernels = set.kernels;
    std::vector<T> values;
    for (int i = 0; i < 35; ++i) {
        const float special[] = {not_a_number, infinity, -infinity, 0x1p-130f, 0x1.018p-130f};
        values.push_back(from_float<T>(special[i % 5]));
    }
    auto y = values;
    kernels.activate(Activation::relu, values.data(), y.data(), std::ssize(values));
    // Halfway between bf16 numbers, the first of which is even, then odd.
    std::vector<float> sums;
    for (std::size_t i = 0; i < values.size(); ++i)
        sums.push_back(i % 2 == 0 ? 0x1.01p0f : 0x1.03p0f);
    auto halfway = values;
    const std::vector<T> large(values.size(), from_float<T>(40));  // where gelu' is 1
    kernels.times_gelu_slope(sums.data(), large.data(), false, halfway.data(), std::ssize(values));
    for (std::size_t i = 0; i < values.size(); ++i) {
        CAPTURE(i);
        const float x = to_float(values[i]);
        CHECK(std::isnan(to_float(y[i])) == std::isnan(x));
        const bool flushed = set.flushes && std::fpclassify(x) == FP_SUBNORMAL;
        if (!std::isnan(x)) CHECK(to_float(y[i]) == (flushed ? 0 : std::max(0.0f, x)));
        CHECK(to_float(halfway[i]) == to_float(from_float<T>(sums[i])));
    }
}

template <class T>
void check_kernels() {
    for (const RowKernelSet<T>& set : runnable_row_kernels<T>()) {
        INFO(set.name);
        for (const std::int64_t count : {1, 7, 8, 9, 15, 16, 17, 31, 48, 203}) {
            CAPTURE(count);
            check_activations(set.kernels, count);
            check_gates(set.kernels, count);
            check_norms(set.kernels, count);
            check_softmax(set.kernels, count);
            check_soft_cap(set.kernels, count);
            check_int8(set.kernels, count);
        }
        check_special_values(set);
    }
}

}  // namespace

TEST_CASE("the row kernels of every instruction set compute what they say") {
    check_kernels<float>();
    check_kernels<Bf16>();
    check_kernels<F16>();
}

}  // namespace gptrain::cpu
