#include "tensor/tensor.h"

#include <utility>

#include "base/text.h"

namespace gptrain {

std::string Shape::to_text() const {
    std::string out = "[";
    for (int dim = 0; dim < rank_; ++dim) {
        append(out, dim == 0 ? "" : ", ");
        append(out, sizes_[dim]);
    }
    return out + "]";
}

Tensor::Tensor(std::byte* data, DType dtype, const Shape& shape)
    : data_(data), dtype_(dtype), shape_(shape) {
    std::int64_t stride = 1;
    for (int dim = rank() - 1; dim >= 0; --dim) {
        strides_[dim] = stride;
        stride = checked_mul(stride, shape[dim]);
    }
}

bool Tensor::contiguous() const {
    std::int64_t expected = 1;
    for (int dim = rank() - 1; dim >= 0; --dim) {
        if (shape_[dim] != 1 && strides_[dim] != expected) return false;
        expected *= shape_[dim];
    }
    return true;
}

Tensor Tensor::slice(int dim, std::int64_t begin, std::int64_t count) const {
    GPTRAIN_CHECK(
        dim >= 0 && dim < rank() && begin >= 0 && count >= 0 && begin + count <= shape_[dim], "[",
        begin, ", ", begin + count, ") of dim ", dim, " of ", shape_.to_text());
    Tensor result = *this;
    result.data_ += begin * strides_[dim] * size_of(dtype_);
    result.shape_[dim] = count;
    return result;
}

Tensor Tensor::at(std::int64_t index) const {
    GPTRAIN_CHECK(rank() > 0 && index >= 0 && index < shape_[0], index, " of ", shape_.to_text());
    Tensor result(*this);
    result.data_ += index * strides_[0] * size_of(dtype_);
    result.shape_ = {};
    for (int dim = 1; dim < rank(); ++dim) {
        result.shape_.push_back(shape_[dim]);
        result.strides_[dim - 1] = strides_[dim];
    }
    result.strides_[rank() - 1] = 0;
    return result;
}

Tensor Tensor::transpose(int a, int b) const {
    GPTRAIN_CHECK(a >= 0 && a < rank() && b >= 0 && b < rank(), "dims ", a, " and ", b, " of ",
                  shape_.to_text());
    Tensor result = *this;
    std::swap(result.shape_[a], result.shape_[b]);
    std::swap(result.strides_[a], result.strides_[b]);
    return result;
}

Tensor Tensor::view(const Shape& shape) const {
    GPTRAIN_CHECK(shape.elements() == elements(), shape_.to_text(), " as ", shape.to_text());
    if (elements() == 0 || contiguous()) return Tensor(data_, dtype_, shape);
    Tensor result = *this;
    result.shape_ = shape;
    // Walk both shapes from the innermost dim outwards. Each new dim takes its elements from the
    // old dims in order, which works unless it crosses a gap between two of them.
    int old_dim = rank() - 1;
    std::int64_t taken = 1;  // of the current old dim
    for (int dim = shape.rank() - 1; dim >= 0; --dim) {
        while (old_dim > 0 && taken == shape_[old_dim]) {
            --old_dim;
            taken = 1;
        }
        result.strides_[dim] = old_dim >= 0 ? strides_[old_dim] * taken : 1;
        std::int64_t wanted = shape[dim];
        while (wanted > 1) {
            const std::int64_t left = old_dim >= 0 ? shape_[old_dim] / taken : 0;
            if (left >= wanted) {
                GPTRAIN_CHECK(left % wanted == 0, shape_.to_text(), " as ", shape.to_text());
                taken *= wanted;
                break;
            }
            GPTRAIN_CHECK(old_dim > 0 && left > 0 && wanted % left == 0 &&
                              strides_[old_dim - 1] == strides_[old_dim] * shape_[old_dim],
                          shape_.to_text(), " with gaps as ", shape.to_text());
            wanted /= left;
            --old_dim;
            taken = 1;
        }
    }
    return result;
}

Tensor Tensor::reinterpret(DType dtype, const Shape& shape) const {
    GPTRAIN_CHECK(contiguous() && shape.elements() * size_of(dtype) == bytes(), shape_.to_text(),
                  " ", name_of(dtype_), " as ", shape.to_text(), " ", name_of(dtype));
    return Tensor(data_, dtype, shape);
}

}  // namespace gptrain
