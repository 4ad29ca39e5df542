// How far an fp32 result may be from the exact one. All tolerances of the op tests come from here.
//
// The reference computes in double. Each of its numbers carries a bound for the error that
// computing the same formula in fp32 can have, by the standard model of rounding (Higham, "Accuracy
// and Stability of Numerical Algorithms", chapters 2 and 4), with u = 2^-24:
//   - a sum, difference, product, quotient or root adds u times the size of its terms;
//   - a sum of n terms adds n u times the sum of their sizes, in any order;
//   - an elementary function adds 4 ulps of fp32, 8 u;
//   - storing in a narrower type adds that type's u times the size;
//   - tensor cores add products of FP8 numbers with about 13 bits of the largest of the terms that
//     they add at a time (DeepSeek-AI 2024, arXiv 2412.19437, section 3.3.2): each factor counts as
//     known to 2^-13 of its size;
//   - a product that an epilogue multiplies by GELU' may be stored in 16 bits before;
//   - the tanh in the epilogue of a 16-bit GEMM adds 2^-11 of its size, the largest error of the
//     instruction that a library may use for it (PTX ISA, tanh.approx.f32).
// Errors of the operands propagate through the derivative. A bound of 0 means that nothing was
// computed, only chosen or copied: then the result must be the exact value, correctly rounded to
// its type.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/dtype.h"

namespace gptrain {

constexpr double fp32_roundoff = 0x1p-24;
constexpr double fp8_factor_roundoff = 0x1p-13;
constexpr double library_tanh_roundoff = 0x1p-11;
/// Results below twice the smallest normal number may be flushed to zero, wherever they arise.
constexpr double fp32_smallest = 0x1p-125;

/// Largest relative error of rounding to nearest.
constexpr double roundoff(DType dtype) {
    switch (dtype) {
        case DType::f32: return fp32_roundoff;
        case DType::bf16: return 0x1p-8;
        case DType::f16: return 0x1p-11;
        case DType::f64: return 0x1p-53;
        default: return 0;
    }
}

/// Largest error of rounding numbers that are too small for a relative one.
constexpr double smallest_error(DType dtype) {
    return dtype == DType::f16 ? 0x1p-25 : fp32_smallest;
}

struct Bounded {
    double value = 0;
    double bound = 0;

    Bounded() = default;
    Bounded(double exact) : value(exact) {}  // NOLINT: exact numbers are Bounded
    Bounded(double v, double b) : value(v), bound(b) {}
};

/// A constant of the formula that fp32 holds only rounded, such as 1 / sqrt(D).
inline Bounded rounded(double x) {
    return {x, fp32_roundoff * std::abs(x)};
}

/// The value after it was stored in memory of that type.
inline Bounded stored(const Bounded& x, DType dtype) {
    return {x.value,
            x.bound + roundoff(dtype) * (std::abs(x.value) + x.bound) + smallest_error(dtype)};
}

inline Bounded operator-(const Bounded& a) {
    return {-a.value, a.bound};
}
inline Bounded operator+(const Bounded& a, const Bounded& b) {
    return {a.value + b.value,
            a.bound + b.bound + fp32_roundoff * (std::abs(a.value) + std::abs(b.value))};
}
inline Bounded operator-(const Bounded& a, const Bounded& b) {
    return a + (-b);
}
inline Bounded operator*(const Bounded& a, const Bounded& b) {
    const double value = a.value * b.value;
    return {value, std::abs(a.value) * b.bound + std::abs(b.value) * a.bound + a.bound * b.bound +
                       fp32_roundoff * std::abs(value)};
}
inline Bounded operator/(const Bounded& a, const Bounded& b) {
    const double value = a.value / b.value;
    return {value, (a.bound + std::abs(value) * b.bound) / (std::abs(b.value) - b.bound) +
                       fp32_roundoff * std::abs(value) + fp32_smallest};
}
inline Bounded& operator+=(Bounded& a, const Bounded& b) {
    return a = a + b;
}

inline Bounded sqrt(const Bounded& a) {
    const double value = std::sqrt(a.value);
    return {value, value - std::sqrt(std::max(0.0, a.value - a.bound)) + fp32_roundoff * value};
}
inline Bounded exp(const Bounded& a) {
    const double value = std::exp(a.value);
    // The argument is reduced, so its own rounding counts as well.
    const double argument = a.bound + 2 * fp32_roundoff * std::abs(a.value);
    return {value, value * (std::expm1(argument) + 8 * fp32_roundoff) + fp32_smallest};
}
inline Bounded log(const Bounded& a) {
    const double value = std::log(a.value);
    return {value, a.bound / (a.value - a.bound) + 8 * fp32_roundoff * std::abs(value)};
}
/// Computed as the exponential of -x^2 plus a sum whose terms are at most 1.3, all of which round.
inline Bounded erfc(const Bounded& a) {
    const double value = std::erfc(a.value);
    const double slope = std::exp(-a.value * a.value) * std::numbers::inv_sqrtpi * 2;
    const double argument = 2 * fp32_roundoff * (a.value * a.value + 1.3);
    return {value,
            (slope + a.bound) * a.bound + value * (argument + 8 * fp32_roundoff) + fp32_smallest};
}
inline Bounded tanh(const Bounded& a) {
    const double value = std::tanh(a.value);
    const double slope = 1 / std::pow(std::cosh(std::max(0.0, std::abs(a.value) - a.bound)), 2);
    return {value, slope * a.bound + 8 * fp32_roundoff * std::abs(value)};
}

/// A sum of many terms.
class Sum {
public:
    void add(const Bounded& x) {
        value_ += x.value;
        bound_ += x.bound;
        size_ += std::abs(x.value);
        ++terms_;
    }
    Bounded result() const {
        // A single term is only copied.
        const double roundings = terms_ > 1 ? static_cast<double>(terms_) : 0;
        return {value_, bound_ + roundings * fp32_roundoff * size_};
    }

private:
    double value_ = 0;
    double bound_ = 0;
    double size_ = 0;
    std::int64_t terms_ = 0;
};

}  // namespace gptrain
