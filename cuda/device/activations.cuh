// Building blocks of the activation functions.
#pragma once

#include "base/activation.h"
#include "cuda/device/device.cuh"

namespace gptrain::cuda {

/// value = 1 / (1 + e^-x); tail = 1 - value without cancellation. Each is within 8 units in the
/// last place, plus the error of x itself.
struct Logistic {
    float value;
    float tail;
};
__device__ inline Logistic logistic(float x) {
    constexpr float log2_e = 1.4426950408889634f;
    // Clamped so that e^-x times a value near 0 is not infinity times 0.
    const float exp_minus = exp2_approx(minimum(-x * log2_e, 125.0f));
    const float value = reciprocal_approx(1.0f + exp_minus);
    return {value, exp_minus * value};
}

/// The same; NaN, which the clamp above hides, stays NaN.
__device__ inline Logistic logistic_or_nan(float x) {
    return x == x ? logistic(x) : Logistic{x, x};
}

/// The value and the slope of an activation function without a gate.
struct Curve {
    float value;
    float slope;
};

__device__ inline Curve relu(float u) {
    return {u < 0.0f ? 0.0f : u, u > 0.0f ? 1.0f : 0.0f};
}

/// The square of relu.
__device__ inline Curve relu2(float u) {
    const float positive = u < 0.0f ? 0.0f : u;
    return {positive * positive, positive + positive};
}

/// A gated activation, of_up of_gate: `up_slope` is its slope in up, of_up gate_slope that in gate.
struct GatedCurve {
    float of_up;
    float of_gate;
    float up_slope;
    float gate_slope;
};

__device__ inline GatedCurve swiglu(float up, float gate) {
    const Logistic s = logistic(gate);
    const float silu = gate * s.value;
    return {up, silu, silu, s.value * fma(gate, s.tail, 1.0f)};
}

/// NaN stays NaN.
__device__ inline GatedCurve clamped_swiglu(float up, float gate) {
    const float g = gate > swiglu_limit ? swiglu_limit : gate;
    const float steep = swiglu_slope * g;
    const Logistic s = logistic(steep);
    const float of_gate = g * s.value;
    const bool above = up > swiglu_limit;
    const bool below = up < -swiglu_limit;
    const float u = above ? swiglu_limit : below ? -swiglu_limit : up;
    return {u + 1.0f, of_gate, above || below ? 0.0f : of_gate,
            gate > swiglu_limit ? 0.0f : s.value * fma(steep, s.tail, 1.0f)};
}

/// GELU in its tanh form, as u logistic(2 z) with z = sqrt(2 / pi) (u + 0.044715 u^3), which keeps
/// full relative precision where 1 + tanh(z) cancels.
__device__ inline Curve gelu(float u) {
    constexpr float two_root = 1.5957691216057308f;  // 2 sqrt(2 / pi)
    const float square = u * u;
    const Logistic s = logistic(two_root * u * fma(0.044715f, square, 1.0f));
    const float two_z_slope = two_root * fma(0.134145f, square, 1.0f);
    return {u * s.value, s.value * fma(u * s.tail, two_z_slope, 1.0f)};
}

__device__ inline GatedCurve geglu(float up, float gate) {
    const Curve at = gelu(gate);
    return {up, at.value, at.value, at.slope};
}

/// The same by the normal distribution P and its density p: u P(u) and P(u) + u p(u).
__device__ inline Curve gelu_erf(float u) {
    constexpr float root_half = 0.70710678118654752f;
    constexpr float half_log2_e = 0.72134752044448170f;
    const float below = 0.5f * complementary_erf(-root_half * u);
    const float density = 0.39894228040143268f * exp2_approx(-half_log2_e * u * u);
    return {u * below, fma(u, density, below)};
}

}  // namespace gptrain::cuda
