// Integer arithmetic with overflow checks. Sizes are std::int64_t everywhere.
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

#include "base/error.h"

namespace gptrain {

/// a + b; overflow is an Error (bug).
inline std::int64_t checked_add(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    GPTRAIN_CHECK(!__builtin_add_overflow(a, b, &result), a, " + ", b, " overflows 64 bits");
    return result;
}

/// a * b; overflow is an Error (bug).
inline std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    GPTRAIN_CHECK(!__builtin_mul_overflow(a, b, &result), a, " * ", b, " overflows 64 bits");
    return result;
}

/// Converts to a narrower type; a value that does not fit is an Error (bug).
template <std::integral To, std::integral From>
To narrow(From value) {
    GPTRAIN_CHECK(std::in_range<To>(value), value, " does not fit");
    return static_cast<To>(value);
}

/// a / b for multiples of b; a remainder is an Error (bug).
inline std::int64_t div_exact(std::int64_t a, std::int64_t b) {
    GPTRAIN_CHECK(b > 0 && a % b == 0, a, " is not a multiple of ", b);
    return a / b;
}

/// a / b rounded up, for a >= 0 and b > 0.
constexpr std::int64_t div_ceil(std::int64_t a, std::int64_t b) {
    return a / b + (a % b != 0 ? 1 : 0);
}

/// The smallest multiple of `unit` that is at least `a`.
constexpr std::int64_t round_up(std::int64_t a, std::int64_t unit) {
    return div_ceil(a, unit) * unit;
}

}  // namespace gptrain
