// Dispatch from a tensor's dtype to a C++ type.
#pragma once

#include "base/error.h"
#include "tensor/tensor.h"

namespace gptrain {

/// Calls f(T{}) with T the storage type of a compute dtype: float, Bf16 or F16.
void with_compute_type(DType dtype, const auto& f) {
    switch (dtype) {
        case DType::f32: f(float{}); break;
        case DType::bf16: f(Bf16{}); break;
        case DType::f16: f(F16{}); break;
        default: fail(ExitCode::bug, "no op computes in ", name_of(dtype));
    }
}

/// Calls f(T{}) with T the storage type of an FP8 format: F8E4M3 or F8E5M2.
void with_fp8_type(DType dtype, const auto& f) {
    switch (dtype) {
        case DType::f8e4m3: f(F8E4M3{}); break;
        case DType::f8e5m2: f(F8E5M2{}); break;
        default: fail(ExitCode::bug, name_of(dtype), " is not an FP8 format");
    }
}

/// A matrix whose rows are contiguous and `stride` elements apart.
template <class T>
struct Rows {
    T* data = nullptr;
    std::int64_t stride = 0;
    Rows() = default;
    explicit Rows(const Tensor& tensor) {
        if (tensor.empty()) return;
        GPTRAIN_CHECK(tensor.rank() == 2 && (tensor.stride(1) == 1 || tensor.size(1) == 1),
                      "rows of ", tensor.shape().to_text());
        data = tensor.as<T>();
        stride = tensor.stride(0);
    }
    T* operator[](std::int64_t row) const { return data + row * stride; }
    explicit operator bool() const { return data != nullptr; }
};

/// Pointer to a tensor's elements; null if the tensor is empty.
template <class T>
T* pointer_or_null(const Tensor& tensor) {
    return tensor.empty() ? nullptr : tensor.as<T>();
}

}  // namespace gptrain
