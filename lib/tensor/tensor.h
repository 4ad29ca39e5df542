// A typed, strided view of backend memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/fp8.h"
#include "tensor/shape.h"

namespace gptrain {

namespace detail {
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::f32> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::f64> {};
template <>
struct DTypeOf<Bf16> : std::integral_constant<DType, DType::bf16> {};
template <>
struct DTypeOf<F16> : std::integral_constant<DType, DType::f16> {};
template <>
struct DTypeOf<F8E4M3> : std::integral_constant<DType, DType::f8e4m3> {};
template <>
struct DTypeOf<F8E5M2> : std::integral_constant<DType, DType::f8e5m2> {};
template <>
struct DTypeOf<std::uint8_t> : std::integral_constant<DType, DType::u8> {};
template <>
struct DTypeOf<std::int8_t> : std::integral_constant<DType, DType::i8> {};
template <>
struct DTypeOf<std::uint16_t> : std::integral_constant<DType, DType::u16> {};
template <>
struct DTypeOf<std::int32_t> : std::integral_constant<DType, DType::i32> {};
template <>
struct DTypeOf<std::int64_t> : std::integral_constant<DType, DType::i64> {};
}  // namespace detail

/// A non-owning view; copying it copies the view. A Buffer or an Arena owns the memory, and only
/// the backend that allocated it may access it. A default-constructed Tensor is `empty()`, meaning
/// "none".
class Tensor {
public:
    Tensor() = default;

    /// A contiguous (row-major) tensor at `data`.
    Tensor(std::byte* data, DType dtype, const Shape& shape);

    bool empty() const { return data_ == nullptr; }
    std::byte* data() const { return data_; }
    DType dtype() const { return dtype_; }
    const Shape& shape() const { return shape_; }
    int rank() const { return shape_.rank(); }
    /// Size of a dim; negative dims count from the end.
    std::int64_t size(int dim) const { return shape_[dim < 0 ? dim + rank() : dim]; }
    /// Distance, in elements, between consecutive indices of a dim.
    std::int64_t stride(int dim) const { return strides_[dim < 0 ? dim + rank() : dim]; }
    std::int64_t elements() const { return shape_.elements(); }
    std::int64_t bytes() const { return elements() * size_of(dtype_); }
    /// True if the elements are in row-major order without gaps.
    bool contiguous() const;

    /// Pointer to the elements as T. A dtype mismatch is an Error (bug).
    template <class T>
    T* as() const {
        GPTRAIN_CHECK(dtype_ == detail::DTypeOf<T>::value, "tensor holds ", name_of(dtype_));
        return reinterpret_cast<T*>(data_);
    }

    /// Indices [begin, begin + count) of one dim.
    Tensor slice(int dim, std::int64_t begin, std::int64_t count) const;
    /// The sub-tensor at `index` of the outermost dim, with one dim fewer.
    Tensor at(std::int64_t index) const;
    /// The same elements with two dims swapped.
    Tensor transpose(int a, int b) const;
    /// The same elements with another shape: any shape of a contiguous tensor. Otherwise dims may
    /// be merged and split as far as the strides allow, and the innermost dim must stay innermost,
    /// else an Error (bug).
    Tensor view(const Shape& shape) const;
    /// The contiguous elements as another dtype and shape of the same total bytes.
    Tensor reinterpret(DType dtype, const Shape& shape) const;

private:
    std::byte* data_ = nullptr;
    DType dtype_ = DType::f32;
    Shape shape_;
    std::array<std::int64_t, Shape::max_rank> strides_{};
};

}  // namespace gptrain
