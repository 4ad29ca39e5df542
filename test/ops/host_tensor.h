// Tensors in host memory, and their copies on a backend.
#pragma once

#include <functional>
#include <vector>

#include "array.h"
#include "backend/backend.h"
#include "base/philox.h"

namespace gptrain {

/// Calls visit(pointer to the element, its row-major index) for every element of a view of host
/// memory.
void for_each_element(const Tensor& view,
                      const std::function<void(std::byte*, std::int64_t)>& visit);

/// One number as stored; integers are exact up to 2^53.
double load(const std::byte* at, DType dtype);
/// x rounded to the type.
void store(std::byte* at, DType dtype, double x);

/// The value of element i of a tensor; `stream` makes the random values of different tensors
/// differ.
using Values = std::function<double(std::int64_t i, PhiloxKey stream)>;
/// Bell-shaped (a sum of four uniform numbers), at most 3.5 standard deviations from the mean.
Values random_values(double deviation = 1, double mean = 0);
/// Integers in [begin, end).
Values random_integers(std::int64_t begin, std::int64_t end);
Values constant(double x);
Values given(std::vector<double> values);

/// Owns host memory. Its floating-point elements are initially NaN, its integers -1.
class HostTensor {
public:
    HostTensor(DType dtype, const Shape& shape)
        : dtype_(dtype), shape_(shape), bytes_(byte_count(), std::byte{0xff}) {}
    HostTensor(DType dtype, const Shape& shape, const Values& values, std::uint32_t stream = 0)
        : HostTensor(dtype, shape) {
        fill(tensor(), values, stream);
    }

    /// Fills a view of host memory.
    static void fill(const Tensor& view, const Values& values, std::uint32_t stream);

    DType dtype() const { return dtype_; }
    const Shape& shape() const { return shape_; }
    Tensor tensor() const { return {const_cast<std::byte*>(bytes_.data()), dtype_, shape_}; }
    std::vector<std::byte>& bytes() { return bytes_; }
    const std::vector<std::byte>& bytes() const { return bytes_; }
    /// Element i in row-major order.
    double operator[](std::int64_t i) const {
        return load(bytes_.data() + i * size_of(dtype_), dtype_);
    }
    bool operator==(const HostTensor& other) const { return bytes_ == other.bytes_; }

private:
    std::size_t byte_count() const {
        return static_cast<std::size_t>(shape_.elements() * size_of(dtype_));
    }

    DType dtype_;
    Shape shape_;
    std::vector<std::byte> bytes_;
};

/// The elements of a view of host memory, in row-major order, exact.
Array to_array(const Tensor& view);

/// A copy of a HostTensor in backend memory.
class DeviceTensor {
public:
    DeviceTensor(Backend& backend, const HostTensor& from);
    Tensor tensor() const { return tensor_; }
    HostTensor download() const;

private:
    Backend* backend_;
    Buffer buffer_;
    Tensor tensor_;
};

}  // namespace gptrain
