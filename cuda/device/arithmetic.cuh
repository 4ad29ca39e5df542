// Scalar arithmetic and its rounding.
#pragma once

namespace gptrain::cuda {

/// a b + c, rounded once.
__device__ inline float fma(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
__device__ inline double fma(double a, double b, double c) {
    return __fma_rn(a, b, c);
}
/// 2^x within 2 units in the last place; subnormal results are flushed to 0.
__device__ inline float exp2_approx(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
/// Base-2 logarithm: absolute error below 2^-22 for x in [0.5, 2], otherwise relative.
__device__ inline float log2_approx(float x) {
    float result;
    asm("lg2.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
/// 1 / x within 1 unit in the last place.
__device__ inline float reciprocal_approx(float x) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
/// Rounded to nearest.
__device__ inline float square_root(float x) {
    return __fsqrt_rn(x);
}
__device__ inline double square_root(double x) {
    return __dsqrt_rn(x);
}
/// The nearest whole number, even if tied.
__device__ inline int nearest_int(float x) {
    return __float2int_rn(x);
}
/// If one argument is NaN, returns the other.
__device__ inline float maximum(float a, float b) {
    return fmaxf(a, b);
}
__device__ inline float minimum(float a, float b) {
    return fminf(a, b);
}
__device__ inline float absolute(float x) {
    return fabsf(x);
}
/// 1 - erf(x) within 4 units in the last place.
__device__ inline float complementary_erf(float x) {
    return ::erfcf(x);
}
// From the compiler's library, within 2 units in the last place.
__device__ inline double cosine(double x) {
    return ::cos(x);
}
__device__ inline double sine(double x) {
    return ::sin(x);
}
__device__ inline double power(double x, double y) {
    return ::pow(x, y);
}
__device__ inline float logarithm(float x) {
    return ::logf(x);
}
__device__ inline double logarithm(double x) {
    return ::log(x);
}
__device__ inline double exponential(double x) {
    return ::exp(x);
}
/// cos(pi x) and sin(pi x).
__device__ inline float cosine_pi(float x) {
    return ::cospif(x);
}
__device__ inline float sine_pi(float x) {
    return ::sinpif(x);
}
__device__ inline double cosine_pi(double x) {
    return ::cospi(x);
}
__device__ inline double sine_pi(double x) {
    return ::sinpi(x);
}
__device__ inline bool is_finite(double x) {
    return ::isfinite(x);
}

}  // namespace gptrain::cuda
