// How ranks divide the reading of something that must be read whole once.
#pragma once

#include <cstdint>

#include "base/checked.h"

namespace gptrain {

/// The elements [begin, end) of a sequence.
struct IndexRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;

    std::int64_t size() const { return end - begin; }
};

/// Part `index` of `count` equal parts.
struct Share {
    std::int64_t index = 0;
    std::int64_t count = 1;

    /// This part of `n` elements. The parts are adjacent, in order, and differ by one element at
    /// most.
    IndexRange of(std::int64_t n) const {
        const auto boundary = [&](std::int64_t part) {
            // Quotient and remainder separately, to avoid overflow in the product.
            return n / count * part + n % count * part / count;
        };
        return {boundary(index), boundary(index + 1)};
    }
    bool first() const { return index == 0; }
    bool last() const { return index + 1 == count; }
};

}  // namespace gptrain
