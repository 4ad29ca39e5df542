// Elementary functions on vectors of floats. V is Vec8 or Vec16.
#pragma once

#include "base/activation.h"

namespace gptrain::cpu {

/// The polynomial in x with these coefficients, that of the highest power first.
template <class V, class... Coefficients>
inline V polynomial(V x, float highest, Coefficients... others) {
    V p = highest;
    ((p = fma(p, x, V(others))), ...);
    return p;
}

/// e^x within 2 ulp for x <= 88; 0 below -87.3. NaN stays NaN. Argument reduction by ln 2 in two
/// parts, with the polynomial of Cephes' expf (Moshier).
template <class V>
inline V exp(V x) {
    const V n = round(x * V(1.44269504088896341f));
    const V r = fnma(n, V(-2.12194440e-4f), fnma(n, V(0.693359375f), x));
    V p = polynomial(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                     1.6666665459e-1f, 5.0000001201e-1f);
    p = fma(p, r * r, r + V(1.0f));
    // Far below the smallest float, p is meaningless; the select discards it.
    return select_less(x, V(-87.3f), V(0.0f), times_power_of_two(p, n));
}

/// 2^x within 2 ulp, at most 2^126; what is below 2^-126 may become 0. NaN stays NaN. The
/// polynomial has the least relative error on [-1/2, 1/2] (2e-9; Remez).
template <class V>
inline V exp2(V x) {
    const V limited = max(V(-160.0f), min(V(126.0f), x));
    const V n = round(limited);
    const V r = limited - n;
    const V p = polynomial(r, 1.5345812e-4f, 1.3399931e-3f, 9.618489e-3f, 5.5503286e-2f,
                           2.4022646e-1f, 6.931472e-1f, 1.0f);
    return times_power_of_two(p, n);
}

/// 1 / (1 + e^-x), and e^-x for callers that need 1 - logistic(x) = e^-x logistic(x).
template <class V>
struct Logistic {
    V exp_minus;
    V value;
};
template <class V>
inline Logistic<V> logistic_of(V exp_minus) {
    return {exp_minus, V(1.0f) / (V(1.0f) + exp_minus)};
}
template <class V>
inline Logistic<V> logistic(V x) {
    return logistic_of(exp(min(V(87.0f), V(0.0f) - x)));
}

/// The value and the slope of an activation function without a gate.
template <class V>
struct Curve {
    V value;
    V slope;
};

/// NaN stays NaN, because max then returns its second argument.
template <class V>
inline Curve<V> relu(V u) {
    return {max(V(0.0f), u), select_less(V(0.0f), u, V(1.0f), V(0.0f))};
}

/// The square of relu.
template <class V>
inline Curve<V> relu2(V u) {
    const V positive = max(V(0.0f), u);
    return {positive * positive, positive + positive};
}

/// GELU (tanh form) and its slope, computed as u logistic(2 z) with z = sqrt(2 / pi) (u + 0.044715
/// u^3), which keeps full relative precision where 1 + tanh(z) cancels. e^(-2 z) is a power of 2,
/// whose constant factors are multiplied in advance.
template <class V>
inline Curve<V> gelu(V u) {
    const V square = u * u;
    const auto s = logistic_of(exp2(u * fma(V(-0.10294324f), square, V(-2.3022082f))));
    const V two_root = V(1.5957691216057308f);  // 2 sqrt(2 / pi)
    const V two_z_slope = two_root * fma(V(0.134145f), square, V(1.0f));
    const V tail = s.exp_minus * s.value;  // 1 - s
    return {u * s.value, s.value * fma(u * tail, two_z_slope, V(1.0f))};
}

/// GELU and its slope: u P(u) and P(u) + u p(u), for the normal distribution P and its density p.
/// The tail of P is erfc(|u| / sqrt(2)) / 2, by the Chebyshev fit of Numerical Recipes
/// (section 6.2), whose relative error is at most 1.2e-7 everywhere.
template <class V>
inline Curve<V> gelu_erf(V u) {
    const V z = max(u, V(0.0f) - u) * V(0.70710678118654752f);
    const V t = V(1.0f) / fma(V(0.5f), z, V(1.0f));
    const V p = polynomial(t, 0.17087277f, -0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f,
                           -0.18628806f, 0.09678418f, 0.37409196f, 1.00002368f, -1.26551223f);
    const V tail = V(0.5f) * t * exp(fnma(z, z, p));
    const V below = select_less(u, V(0.0f), tail, V(1.0f) - tail);
    const V density = V(0.39894228040143268f) * exp(V(-0.5f) * u * u);
    return {u * below, fma(u, density, below)};
}

/// A gated activation, of_up of_gate: `up_slope` is its slope in up, of_up gate_slope that in gate.
template <class V>
struct GatedCurve {
    V of_up;
    V of_gate;
    V up_slope;
    V gate_slope;
};

template <class V>
inline GatedCurve<V> swiglu(V up, V gate) {
    const auto s = logistic(gate);
    const V tail = s.exp_minus * s.value;  // 1 - s
    const V silu = gate * s.value;
    return {up, silu, silu, s.value * fma(gate, tail, V(1.0f))};
}

template <class V>
inline GatedCurve<V> geglu(V up, V gate) {
    const Curve<V> at = gelu(gate);
    return {up, at.value, at.value, at.slope};
}

/// NaN stays NaN, because min and max then return their second argument.
template <class V>
inline GatedCurve<V> clamped_swiglu(V up, V gate) {
    const V limit = swiglu_limit;
    const V least = V(0.0f) - limit;
    const V g = min(limit, gate);
    const V steep = V(swiglu_slope) * g;
    const auto s = logistic(steep);
    const V tail = s.exp_minus * s.value;  // 1 - s
    const V of_gate = g * s.value;
    const V above_least = select_less(up, least, V(0.0f), of_gate);
    return {max(least, min(limit, up)) + V(1.0f), of_gate,
            select_less(limit, up, V(0.0f), above_least),
            select_less(limit, gate, V(0.0f), s.value * fma(steep, tail, V(1.0f)))};
}

/// tanh(x) within 4 ulp. The polynomial near 0 is that of Cephes' tanhf. NaN stays NaN.
template <class V>
inline V tanh(V x) {
    const V square = x * x;
    const V p = polynomial(square, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                           1.33314422036e-1f, -3.33332819422e-1f);
    const V near = fma(p * square, x, x);
    const V size = max(x, V(0.0f) - x);
    const V e = exp(V(-2.0f) * size);
    const V tail = (V(1.0f) - e) / (V(1.0f) + e);
    const V far = select_less(x, V(0.0f), V(0.0f) - tail, tail);
    return select_less(size, V(0.625f), near, far);
}

/// ln(x) within 2 ulp, for normal x > 0. Polynomial of Cephes' logf.
template <class V>
inline V log(V x) {
    const auto parts = split_exponent(x);  // mantissa in [0.5, 1)
    const V root_half = V(0.707106781186547524f);
    const V e = select_less(parts.mantissa, root_half, parts.exponent - V(1.0f), parts.exponent);
    const V doubled = parts.mantissa + parts.mantissa;
    const V m = select_less(parts.mantissa, root_half, doubled, parts.mantissa) - V(1.0f);
    const V p = polynomial(m, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f,
                           -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f,
                           -2.4999993993e-1f, 3.3333331174e-1f);
    const V square = m * m;
    const V tail = fma(e, V(-2.12194440e-4f), fma(V(-0.5f), square, p * m * square));
    return fma(e, V(0.693359375f), m + tail);
}

template <class V>
struct SinCos {
    V sine;
    V cosine;
};
/// Sine and cosine of 2 pi x for |x| <= 2^20, within 2 ulp of 1. Polynomials of Cephes' sinf and
/// cosf on an eighth of a turn.
template <class V>
inline SinCos<V> sincos_turns(V x) {
    const V quarter = round(x * V(4.0f));
    const V angle = fnma(quarter, V(0.25f), x) * V(6.28318530717958648f);
    const V square = angle * angle;
    V s = polynomial(square, -1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f);
    s = fma(s * square, angle, angle);
    V c = polynomial(square, 2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f);
    c = fma(c * square, square, fma(V(-0.5f), square, V(1.0f)));
    // Quarter 0: (s, c); 1: (c, -s); 2: (-s, -c); 3: (-c, s).
    const V odd = remainder_of_two(quarter);
    const V swapped_sine = select_less(V(0.5f), odd, c, s);
    const V swapped_cosine = select_less(V(0.5f), odd, s, c);
    const V second = remainder_of_two(floor(quarter * V(0.5f)));
    const V sine = select_less(V(0.5f), second, V(0.0f) - swapped_sine, swapped_sine);
    const V flip = (odd - second) * (odd - second);
    const V cosine = select_less(V(0.5f), flip, V(0.0f) - swapped_cosine, swapped_cosine);
    return {sine, cosine};
}

}  // namespace gptrain::cpu
