// The costly arithmetic on rows of elements: activations, norms, the softmax of logits, the
// conversion of int8 and NF4 weights, and products of a few rows. Compiled for AVX2, for AVX-512,
// and for AVX-512 with the instruction that rounds to bf16.
#pragma once

#include <cstdint>

#include "base/activation.h"
#include "base/dtype.h"
#include "cpu/few_rows_operands.h"

namespace gptrain::cpu {

/// The mean that a norm subtracts from a row, and the factor that it then applies.
struct Moments {
    float mean = 0;  ///< 0 for RMSNorm
    float rstd = 0;  ///< 1 / standard deviation, or 1 / root mean square
};

/// T is float, Bf16 or F16; `count` is the number of elements. Arithmetic is fp32, and results are
/// rounded once.
template <class T>
struct RowKernels {
    /// y = f(u), for activations without a gate.
    void (*activate)(Activation activation, const T* u, T* y, std::int64_t count);
    /// du = dy f'(u), for activations without a gate.
    void (*activate_backward)(Activation activation, const T* u, const T* dy, T* du,
                              std::int64_t count);
    /// y = f(up, gate), for activations with a gate.
    void (*gate)(Activation activation, const T* up, const T* gate, T* y, std::int64_t count);
    /// The gradients of up and gate from dy, likewise.
    void (*gate_backward)(Activation activation, const T* up, const T* gate, const T* dy, T* d_up,
                          T* d_gate, std::int64_t count);
    /// to = sums gelu'(u), or to += sums gelu'(u)
    void (*times_gelu_slope)(const float* sums, const T* u, bool accumulate, T* to,
                             std::int64_t count);
    /// `eps` is added to the variance, or to the mean square.
    Moments (*moments)(const T* row, std::int64_t count, bool rms, float eps);
    /// n = (row - mean) rstd weight + bias; `bias` may be null.
    void (*normalise)(const T* row, const Moments& moments, const T* weight, const T* bias, T* n,
                      std::int64_t count);
    /// sum = a + b
    void (*add)(const T* a, const T* b, T* sum, std::int64_t count);
    float (*maximum)(const T* row, std::int64_t count);
    /// The sum of exp(row - shift).
    float (*exp_sum)(const T* row, float shift, std::int64_t count);
    /// row = scale exp(row - shift)
    void (*scaled_exp)(T* row, float shift, float scale, std::int64_t count);
    /// row = scale exp(row - shift) (1 - (row / cap)^2)
    void (*capped_exp)(T* row, float shift, float scale, float cap, std::int64_t count);
    /// row = cap tanh(row / cap)
    void (*soft_cap)(T* row, float cap, std::int64_t count);
    /// row = scale values
    void (*from_int8)(const std::int8_t* values, float scale, T* row, std::int64_t count);
    /// row = scale times the values of a block's codes (base/nf4.h).
    void (*from_nf4)(const std::uint8_t* codes, float scale, T* row);
    /// Outputs [begin, end) of a few rows, each row of the weight read once. The sums of a row do
    /// not depend on the others.
    void (*multiply)(const FewRows<T>& rows, const Rows<T>& weight, std::int64_t begin,
                     std::int64_t end);
    void (*multiply_int8)(const FewRows<T>& rows, const Int8Rows& weight, std::int64_t begin,
                          std::int64_t end);
    void (*multiply_nf4)(const FewRows<T>& rows, const Nf4Rows& weight, std::int64_t begin,
                         std::int64_t end);
};

template <class T>
RowKernels<T> avx2_row_kernels();
template <class T>
RowKernels<T> avx512_row_kernels();
RowKernels<Bf16> avx512_bf16_row_kernels();
/// The fastest kernels that this CPU supports.
template <class T>
const RowKernels<T>& row_kernels();

}  // namespace gptrain::cpu
