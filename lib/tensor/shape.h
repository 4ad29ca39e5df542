// The sizes of a tensor's dims.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/checked.h"

namespace gptrain {

/// Up to five sizes, outermost first. A shape without dims is a scalar (one element).
class Shape {
public:
    static constexpr int max_rank = 5;

    Shape() = default;
    Shape(std::initializer_list<std::int64_t> sizes) {
        for (const std::int64_t size : sizes)
            push_back(size);
    }

    void push_back(std::int64_t size) {
        GPTRAIN_CHECK(rank_ < max_rank && size >= 0, "size ", size, " at dim ", rank_);
        sizes_[rank_++] = size;
    }

    int rank() const { return rank_; }
    std::int64_t operator[](int dim) const { return sizes_[dim]; }
    std::int64_t& operator[](int dim) { return sizes_[dim]; }
    const std::int64_t* begin() const { return sizes_.data(); }
    const std::int64_t* end() const { return sizes_.data() + rank_; }
    bool operator==(const Shape& other) const = default;

    /// Product of the sizes. 64-bit overflow is an Error.
    std::int64_t elements() const {
        std::int64_t product = 1;
        for (const std::int64_t size : *this)
            product = checked_mul(product, size);
        return product;
    }

    /// "[2, 3]"
    std::string to_text() const;

private:
    std::array<std::int64_t, max_rank> sizes_{};
    int rank_ = 0;
};

}  // namespace gptrain
