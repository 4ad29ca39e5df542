// Describes one GEMM and its epilogue.
#pragma once

#include "backend/matrix.h"

namespace gptrain::cuda {

/// cuBLASLt 13 on an H100 takes up to 8 times as long for 16-bit operands if a dim that is
/// contiguous in one of the matrices is no multiple of this.
constexpr std::int64_t fast_multiple = 8;

/// c = a b, or c += a b with `accumulate`.
///
/// `bias`, `gelu_input`, `swiglu_input` and `accumulate` exclude each other; `gelu` and `swiglu`
/// work alone or with `bias`, and `a_sums` alone or with `accumulate`:
///  - `bias` (a row of c's width and dtype) is added to every row before the sum is rounded.
///  - `gelu_input` u (of c's shape and dtype, any row stride): c = (a b) gelu'(u), tanh form; the
///    library rounds a b to 16 bits first, as a layer without the epilogue would.
///  - `gelu` (of c's shape and dtype): also computes gelu = gelu(c), tanh form; the library does so
///    before it rounds the sums to c.
///  - `swiglu`: also computes swiglu = swiglu(c) of c as rounded; the library does not.
///  - `swiglu_input` u and `swiglu_grad` (of c's dtype): swiglu_grad = the gradient of u, from a b
///    as rounded to c, which may hold anything afterwards. Not the library.
///  - `a_totals` (a vector): also adds the sum of each row of a to it. `a_sums` is memory for these
///    sums, because the library overwrites. Requires an fp32 c and no FP8 operands, because the
///    library stores the sums in c's dtype, or in bf16 for FP8.
///
/// Dtypes: a and b are both fp32, both bf16 or both fp16, and c has their dtype or fp32. Or both
/// are FP8, not both f8e5m2, with the reduction dim contiguous in both (a's col_stride and b's
/// row_stride are 1), and c is bf16, fp16 or fp32. c's col_stride is 1; c does not overlap the
/// others. FP8 operands have one scale each, or scales for blocks of 128 elements of K, the last of
/// which may be shorter: then those of a are for 1 row or 128, those of b for 1 column or 128, and
/// not both for 128. Such a product takes a bias alone, or `accumulate` alone with an fp32 c.
///
/// We assume of the library that it multiplies in blocks on GPUs of compute capability 9.0 alone,
/// from cuBLASLt 12.9 on; that it adds up the products of a block before it scales them, and adds
/// those sums in fp32; that `bias` works as with one scale; that M and N must be multiples of 16;
/// that of scales for 1 row and 1 column it takes a K that ends inside of a block, and stores in or
/// adds to fp32. None of it has been measured: the test "FP8 ops in blocks agree with the
/// reference" asks it.
struct Gemm {
    Matrix a;                         ///< [M, K]
    Matrix b;                         ///< [K, N]
    Matrix c;                         ///< [M, N]
    const std::byte* bias = nullptr;  ///< [N]
    Matrix gelu_input = {};           ///< [M, N]; no data: not used
    Matrix gelu = {};                 ///< [M, N]; no data: not used
    Matrix swiglu = {};               ///< [M, N / 2]; no data: not used
    Matrix swiglu_input = {};         ///< [M, 2 N]; no data: not used
    Matrix swiglu_grad = {};          ///< [M, 2 N], only and always with swiglu_input
    float* a_sums = nullptr;          ///< [M]
    float* a_totals = nullptr;        ///< [M], += a_sums; only and always with a_sums
    bool accumulate = false;
    /// FP8 with one scale only: sums may have fewer bits than fp32.
    bool fast_accumulation = false;
    /// The library chooses kernels for this many multiprocessors; 0: for all.
    std::int32_t multiprocessors = 0;

    bool has_epilogue() const {
        return bias != nullptr || gelu_input.data != nullptr || gelu.data != nullptr ||
               a_sums != nullptr || has_swiglu();
    }
    bool has_swiglu() const { return swiglu.data != nullptr || swiglu_input.data != nullptr; }
};

/// True if the epilogue is GELU or its derivative.
inline bool has_gelu_epilogue(const Gemm& gemm) {
    return gemm.gelu_input.data != nullptr || gemm.gelu.data != nullptr;
}
/// The library's result and auxiliary matrices. With a GELU epilogue, the activated matrix is the
/// result and the raw sums are the auxiliary output.
inline const Matrix& result_of(const Gemm& gemm) {
    return gemm.gelu.data != nullptr ? gemm.gelu : gemm.c;
}
inline const Matrix& auxiliary_of(const Gemm& gemm) {
    return gemm.gelu.data != nullptr ? gemm.c : gemm.gelu_input;
}

}  // namespace gptrain::cuda
