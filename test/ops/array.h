// The values of a tensor as the reference sees them.
#pragma once

#include <vector>

#include "bounded.h"
#include "tensor/tensor.h"

namespace gptrain {

/// Row-major numbers. A default-constructed Array is `empty()`, which means "not given".
class Array {
public:
    Array() = default;
    explicit Array(const Shape& shape, DType dtype = DType::f64)
        : shape_(shape), dtype_(dtype), values_(static_cast<std::size_t>(shape.elements())) {}

    bool empty() const { return values_.empty(); }
    DType dtype() const { return dtype_; }
    const Shape& shape() const { return shape_; }
    std::int64_t size(int dim) const { return shape_[dim]; }

    /// The element at the indices. If only the last one is given, it counts through all elements.
    Bounded& operator()(auto... index) { return values_[position(index...)]; }
    const Bounded& operator()(auto... index) const { return values_[position(index...)]; }
    std::int64_t integer(auto... index) const {
        return static_cast<std::int64_t>((*this)(index...).value);
    }

    std::vector<Bounded>& values() { return values_; }
    const std::vector<Bounded>& values() const { return values_; }

private:
    std::size_t position(auto... index) const {
        std::int64_t flat = 0;
        int dim = shape_.rank() - static_cast<int>(sizeof...(index));
        ((flat = flat * shape_[dim++] + index), ...);
        return static_cast<std::size_t>(flat);
    }

    Shape shape_;
    DType dtype_ = DType::f64;
    std::vector<Bounded> values_;
};

}  // namespace gptrain
