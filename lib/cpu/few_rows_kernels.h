// Products of a few rows with the rows of a weight, each of which is read once. Compiled for AVX2
// and for AVX-512.
#pragma once

#include "tensor/dtype_switch.h"

namespace gptrain::cpu {

/// y = x weight^T + bias, or += that. T is float, Bf16 or F16, the dtype of x and y.
template <class T>
struct FewRows {
    Rows<T> x;
    Rows<T> y;
    const T* bias;  ///< of the outputs, or null
    std::int64_t count;
    std::int64_t length;  ///< of the rows of x and of the weight
    bool accumulate;
};

/// A weight in blocks of `block` elements of a row that share a scale.
struct Int8Rows {
    Rows<std::int8_t> values;
    Rows<float> scales;
    std::int64_t block;
};

/// Outputs [begin, end). Sums are fp32 and rounded once; those of a row do not depend on the
/// others.
template <class T>
struct FewRowsKernels {
    void (*multiply)(const FewRows<T>& rows, const Rows<T>& weight, std::int64_t begin,
                     std::int64_t end);
    void (*multiply_int8)(const FewRows<T>& rows, const Int8Rows& weight, std::int64_t begin,
                          std::int64_t end);
};

/// Outputs that are computed together: a range of them had best be a multiple.
constexpr int outputs_at_once = 4;

template <class T>
FewRowsKernels<T> avx2_few_rows_kernels();
template <class T>
FewRowsKernels<T> avx512_few_rows_kernels();
/// The fastest kernels that this CPU supports.
template <class T>
const FewRowsKernels<T>& few_rows_kernels();

}  // namespace gptrain::cpu
