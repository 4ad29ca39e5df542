// The GEMMs that cuBLASLt's documentation lists, as far as gptrain has them, computed naively on
// host memory. Column-major, sums in double.
#pragma once

#include <compare>
#include <cstdint>
#include <cublasLt.h>

namespace gptrain::test {

struct Operation {
    cublasOperation_t transpose_a = CUBLAS_OP_N;
    cublasOperation_t transpose_b = CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    void* bias = nullptr;
    std::int32_t bias_type = -1;
    void* aux = nullptr;
    std::int32_t aux_type = -1;
    std::int64_t aux_stride = 0;
    const float* scale_a = nullptr;
    const float* scale_b = nullptr;
    std::int32_t scale_mode_a = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    std::int32_t scale_mode_b = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    std::int8_t fast = 0;
    std::int32_t multiprocessors = 0;
};

struct Layout {
    std::int32_t type;
    std::uint64_t rows;
    std::uint64_t cols;
    std::int64_t stride;
    auto operator<=>(const Layout&) const = default;
};

/// The operands, and the result.
struct Layouts {
    const Layout& a;
    const Layout& b;
    const Layout& d;
};

bool is_fp8(std::int32_t type);

/// The library's support of the operation for these matrices, by its documentation: success, or the
/// status that says why it has none.
cublasStatus_t support_of(const Operation& operation, const Layouts& at);

struct Scales {
    float of_product;
    float of_c;
};

template <class Data>
struct Matrix {
    Data* data;
    const Layout& layout;
};

/// d = the operation's function of the product of a and b, and of c. Matrices that do not fit
/// together are an invalid value.
cublasStatus_t multiply(const Operation& operation, const Scales& scales,
                        const Matrix<const void>& a, const Matrix<const void>& b,
                        const Matrix<const void>& c, const Matrix<void>& d);

}  // namespace gptrain::test
