// The hyperbolic tangent.
#pragma once

#include "cuda/device/device.cuh"

namespace gptrain::cuda {

/// tanh(x) within 8 units in the last place. The polynomial near 0 is that of Cephes' tanhf
/// (Moshier). NaN stays NaN.
__device__ inline float tanh(float x) {
    constexpr float minus_two_log2_e = -2.8853900817779268f;
    const float square = x * x;
    float p = fma(square, -5.70498872745e-3f, 2.06390887954e-2f);
    p = fma(square, p, -5.37397155531e-2f);
    p = fma(square, p, 1.33314422036e-1f);
    p = fma(square, p, -3.33332819422e-1f);
    const float near = fma(p * square, x, x);
    const float e = exp2_approx(minus_two_log2_e * absolute(x));
    const float far = (1.0f - e) * reciprocal_approx(1.0f + e);
    return absolute(x) < 0.625f ? near : x < 0.0f ? -far : far;
}

}  // namespace gptrain::cuda
