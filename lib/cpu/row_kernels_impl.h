// The kernels of row_kernels.h for vector type V. As in tile_kernels_impl.h, nothing here may be
// shared between the sources that include it.
#pragma once

#include <cmath>
#include <limits>

#include "cpu/few_rows_impl.h"
#include "cpu/lanes.h"
#include "cpu/row_kernels.h"
#include "cpu/vector_math.h"

namespace gptrain::cpu {
namespace {

/// Calls f(curve), where curve(u) is the value and the slope of the activation.
template <class V>
void with_curve(Activation activation, const auto& f) {
    switch (activation) {
        case Activation::gelu: return f([](V u) { return gelu(u); });
        case Activation::gelu_erf: return f([](V u) { return gelu_erf(u); });
        case Activation::relu: return f([](V u) { return relu(u); });
        case Activation::relu2: return f([](V u) { return relu2(u); });
        case Activation::swiglu:
        case Activation::clamped_swiglu:
        case Activation::geglu: return;  // have a gate
    }
}

template <class V, class T>
void activate(Activation activation, const T* u, T* y, std::int64_t count) {
    with_curve<V>(activation, [&](auto curve) {
        for_vectors_of<V>(0, count, [&](std::int64_t i, auto lanes) {
            store(y + i, curve(load(u + i, lanes)).value, lanes);
        });
    });
}

template <class V, class T>
void activate_backward(Activation activation, const T* u, const T* dy, T* du, std::int64_t count) {
    with_curve<V>(activation, [&](auto curve) {
        for_vectors_of<V>(0, count, [&](std::int64_t i, auto lanes) {
            store(du + i, load(dy + i, lanes) * curve(load(u + i, lanes)).slope, lanes);
        });
    });
}

/// Calls f(curve), where curve(up, gate) is what the activation computes from both.
template <class V>
void with_gated_curve(Activation activation, const auto& f) {
    if (activation == Activation::swiglu) return f([](V up, V gate) { return swiglu(up, gate); });
    if (activation == Activation::geglu) return f([](V up, V gate) { return geglu(up, gate); });
    f([](V up, V gate) { return clamped_swiglu(up, gate); });
}

template <class V, class T>
void gate(Activation activation, const T* up, const T* gate, T* y, std::int64_t count) {
    with_gated_curve<V>(activation, [&](auto curve) {
        for_vectors_of<V>(0, count, [&](std::int64_t i, auto lanes) {
            const auto at = curve(load(up + i, lanes), load(gate + i, lanes));
            store(y + i, at.of_gate * at.of_up, lanes);
        });
    });
}

template <class V, class T>
void gate_backward(Activation activation, const T* up, const T* gate, const T* dy, T* d_up,
                   T* d_gate, std::int64_t count) {
    with_gated_curve<V>(activation, [&](auto curve) {
        for_vectors_of<V>(0, count, [&](std::int64_t i, auto lanes) {
            const auto at = curve(load(up + i, lanes), load(gate + i, lanes));
            const V gradient = load(dy + i, lanes);
            store(d_up + i, gradient * at.up_slope, lanes);
            store(d_gate + i, gradient * at.of_up * at.gate_slope, lanes);
        });
    });
}

template <class V, class T>
void times_gelu_slope(const float* sums, const T* u, bool accumulate, T* to, std::int64_t count) {
    for_vectors_of<V>(0, count, [&](std::int64_t i, auto lanes) {
        V x = load(sums + i, lanes) * gelu(load(u + i, lanes)).slope;
        if (accumulate) x = x + load(to + i, lanes);
        store(to + i, x, lanes);
    });
}

/// The sum of f(x) over a row. Four sums at a time: one would wait for each addition.
template <class V, class T>
float sum_of(const T* row, std::int64_t count, const auto& f) {
    constexpr int chains = 4;
    V sums[chains] = {0.0f, 0.0f, 0.0f, 0.0f};
    std::int64_t i = 0;
    for (; i + chains * V::size <= count; i += chains * V::size) {
        unrolled<chains>(
            [&](int k) { sums[k] = sums[k] + f(load(row + i + k * V::size, FullLanes<V>())); });
    }
    for_vectors_of<V>(i, count, [&](std::int64_t j, auto lanes) {
        sums[0] = sums[0] + masked(f(load(row + j, lanes)), lanes, V(0.0f));
    });
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum();
}

template <class V, class T>
Moments moments(const T* row, std::int64_t count, bool rms, float eps) {
    const auto elements = static_cast<float>(count);
    Moments result;
    if (!rms) result.mean = sum_of<V>(row, count, [](V x) { return x; }) / elements;
    const V mean = result.mean;
    const float squares = sum_of<V>(row, count, [&](V x) { return (x - mean) * (x - mean); });
    result.rstd = 1 / std::sqrt(squares / elements + eps);
    return result;
}

template <class V, class T>
void normalise(const T* row, const Moments& moments, const T* weight, const T* bias, T* n,
               std::int64_t count) {
    const V mean = moments.mean;
    const V rstd = moments.rstd;
    for_vectors_of<V>(0, count, [&](std::int64_t i, auto lanes) {
        const V x = (load(row + i, lanes) - mean) * rstd;
        const V shift = bias == nullptr ? V(0.0f) : load(bias + i, lanes);
        store(n + i, fma(x, load(weight + i, lanes), shift), lanes);
    });
}

template <class V, class T>
void add(const T* a, const T* b, T* sum, std::int64_t count) {
    for_vectors_of<V>(0, count, [&](std::int64_t i, auto lanes) {
        store(sum + i, load(a + i, lanes) + load(b + i, lanes), lanes);
    });
}

template <class V, class T>
float maximum(const T* row, std::int64_t count) {
    const V least = -std::numeric_limits<float>::infinity();
    V largest = least;
    for_vectors_of<V>(0, count, [&](std::int64_t i, auto lanes) {
        largest = max(largest, masked(load(row + i, lanes), lanes, least));
    });
    return largest.maximum();
}

template <class V, class T>
float exp_sum(const T* row, float shift, std::int64_t count) {
    V sum = 0.0f;
    for_vectors_of<V>(0, count, [&](std::int64_t i, auto lanes) {
        sum = sum + masked(exp(load(row + i, lanes) - V(shift)), lanes, V(0.0f));
    });
    return sum.sum();
}

template <class V, class T>
void scaled_exp(T* row, float shift, float scale, std::int64_t count) {
    for_vectors_of<V>(0, count, [&](std::int64_t i, auto lanes) {
        store(row + i, V(scale) * exp(load(row + i, lanes) - V(shift)), lanes);
    });
}

template <class V, class T>
void capped_exp(T* row, float shift, float scale, float cap, std::int64_t count) {
    const V inverse = 1 / cap;
    for_vectors_of<V>(0, count, [&](std::int64_t i, auto lanes) {
        const V x = load(row + i, lanes);
        const V share = x * inverse;
        const V slope = fnma(share, share, V(1.0f));
        store(row + i, V(scale) * exp(x - V(shift)) * slope, lanes);
    });
}

template <class V, class T>
void soft_cap(T* row, float cap, std::int64_t count) {
    const V inverse = 1 / cap;
    for_vectors_of<V>(0, count, [&](std::int64_t i, auto lanes) {
        store(row + i, V(cap) * tanh(load(row + i, lanes) * inverse), lanes);
    });
}

template <class V, class T>
void from_int8(const std::int8_t* values, float scale, T* row, std::int64_t count) {
    for_vectors_of<V>(0, count, [&](std::int64_t i, auto lanes) {
        store(row + i, load(values + i, lanes) * V(scale), lanes);
    });
}

template <class V, class T>
void from_nf4(const std::uint8_t* codes, float scale, T* row) {
    float values[nf4_block];
    widen_codes(codes, values);
    for_vectors_of<V>(0, nf4_block, [&](std::int64_t i, auto lanes) {
        store(row + i, load(values + i, lanes) * V(scale), lanes);
    });
}

template <class V, class T>
RowKernels<T> row_kernels_of() {
    return {.activate = activate<V, T>,
            .activate_backward = activate_backward<V, T>,
            .gate = gate<V, T>,
            .gate_backward = gate_backward<V, T>,
            .times_gelu_slope = times_gelu_slope<V, T>,
            .moments = moments<V, T>,
            .normalise = normalise<V, T>,
            .add = add<V, T>,
            .maximum = maximum<V, T>,
            .exp_sum = exp_sum<V, T>,
            .scaled_exp = scaled_exp<V, T>,
            .capped_exp = capped_exp<V, T>,
            .soft_cap = soft_cap<V, T>,
            .from_int8 = from_int8<V, T>,
            .from_nf4 = from_nf4<V, T>,
            .multiply = multiply_few<V, T, Rows<T>>,
            .multiply_int8 = multiply_few<V, T, Int8Rows>,
            .multiply_nf4 = multiply_few<V, T, Nf4Rows>};
}

}  // namespace
}  // namespace gptrain::cpu
