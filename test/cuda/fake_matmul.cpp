#include "cuda/fake_matmul.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/fp8.h"

namespace gptrain::test {
namespace {

template <class T>
double value(const void* data, std::int64_t index) {
    T x;
    std::memcpy(&x, static_cast<const std::byte*>(data) + index * std::int64_t{sizeof(T)},
                sizeof(T));
    return static_cast<double>(to_float(x));
}

double read(const void* data, std::int32_t type, std::int64_t index) {
    switch (type) {
        case CUDA_R_32F: return value<float>(data, index);
        case CUDA_R_16BF: return value<Bf16>(data, index);
        case CUDA_R_16F: return value<F16>(data, index);
        case CUDA_R_8F_E4M3: return value<F8E4M3>(data, index);
        case CUDA_R_8F_E5M2: return value<F8E5M2>(data, index);
        default: return std::nan("");
    }
}

void write(void* data, std::int32_t type, std::int64_t index, double x) {
    const auto store = [&](auto element) {
        std::memcpy(static_cast<std::byte*>(data) + index * std::int64_t{sizeof element}, &element,
                    sizeof element);
    };
    const auto single = static_cast<float>(x);
    if (type == CUDA_R_32F) store(single);
    if (type == CUDA_R_16BF) store(to_bf16(single));
    if (type == CUDA_R_16F) store(to_f16(single));
}

const double root = std::sqrt(2 / 3.14159265358979323846);

double gelu(double u) {
    return 0.5 * u * (1 + std::tanh(root * (u + 0.044715 * u * u * u)));
}

double gelu_slope(double u) {
    const double t = std::tanh(root * (u + 0.044715 * u * u * u));
    return 0.5 * (1 + t) + 0.5 * u * (1 - t * t) * root * (1 + 3 * 0.044715 * u * u);
}

bool has_bias(cublasLtEpilogue_t epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
/// The sums of an operand over the GEMM's length are then written as the bias.
bool has_bias_gradient(cublasLtEpilogue_t epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}
/// The sums are then written as an auxiliary output.
bool has_gelu(cublasLtEpilogue_t epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

/// Element (row, col) of the layout's matrix, or of its transpose.
double element(const void* data, const Layout& layout, bool transposed, std::int64_t row,
               std::int64_t col) {
    return read(data, layout.type,
                transposed ? col + row * layout.stride : row + col * layout.stride);
}

/// The types that cublasLtMatmul's documentation lists for CUBLAS_COMPUTE_32F with factors in fp32,
/// as far as gptrain has them.
bool has_types(const Layouts& at) {
    if (is_fp8(at.a.type)) {
        return is_fp8(at.b.type) && !(at.a.type == CUDA_R_8F_E5M2 && at.b.type == CUDA_R_8F_E5M2) &&
               !is_fp8(at.d.type);
    }
    return at.a.type == at.b.type && (at.d.type == at.a.type || at.d.type == CUDA_R_32F);
}

/// FP8: the first operand transposed, the second not, all dims and strides multiples of 16
/// elements.
bool has_fp8_form(const Operation& operation, const Layouts& at) {
    const auto whole = [](const Layout& layout) {
        return layout.rows % 16 == 0 && layout.cols % 16 == 0 && layout.stride % 16 == 0;
    };
    return operation.transpose_a == CUBLAS_OP_T && operation.transpose_b == CUBLAS_OP_N &&
           whole(at.a) && whole(at.b) && whole(at.d);
}

/// The columns of GELU's auxiliary matrix begin at multiples of 8 elements.
bool has_auxiliary(const Operation& operation, const Layouts& at) {
    return operation.aux_stride % 8 == 0 && std::cmp_greater_equal(operation.aux_stride, at.d.rows);
}

/// An H100 shows that scales begin at multiples of 16 bytes; the documentation does not say so.
bool has_aligned_scales(const Operation& operation) {
    const auto aligned = [](const void* scale) {
        return reinterpret_cast<std::uintptr_t>(scale) % 16 == 0;
    };
    return aligned(operation.scale_a) && aligned(operation.scale_b);
}

// VEC128_32F and BLK128x128_32F, which CUDA 12.8 does not name.
constexpr std::int32_t scale_vectors = 4;
constexpr std::int32_t scale_squares = 5;

bool in_blocks(std::int32_t mode) {
    return mode != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

/// Scales for blocks: both operands e4m3, not both of 128 x 128, with K a multiple of 128 unless
/// both are vectors, no fast sums and no epilogue but a bias.
bool has_block_form(const Operation& operation, const Layouts& at) {
    const bool a = in_blocks(operation.scale_mode_a);
    const bool b = in_blocks(operation.scale_mode_b);
    if (!a && !b) return true;
    const auto both = [&](std::int32_t mode) {
        return operation.scale_mode_a == mode && operation.scale_mode_b == mode;
    };
    return a && b && !both(scale_squares) && at.a.type == CUDA_R_8F_E4M3 &&
           at.b.type == CUDA_R_8F_E4M3 && (both(scale_vectors) || at.a.rows % 128 == 0) &&
           operation.fast == 0 &&
           (operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
            operation.epilogue == CUBLASLT_EPILOGUE_BIAS);
}

/// The scale of element k of a vector along K; the operand's columns are these vectors.
double scale_of(const float* scale, std::int32_t mode, const Layout& layout, std::int64_t k,
                std::int64_t vector) {
    if (scale == nullptr) return 1;
    const std::int64_t block = k / 128;
    if (mode == scale_vectors)
        return static_cast<double>(scale[block * static_cast<std::int64_t>(layout.cols) + vector]);
    if (mode == scale_squares) {
        const std::int64_t padded = (static_cast<std::int64_t>(layout.rows) / 128 + 3) / 4 * 4;
        return static_cast<double>(scale[vector / 128 * padded + block]);
    }
    return static_cast<double>(*scale);
}

/// True if the documentation allows the operation's attributes for these types: a type for GELU's
/// auxiliary matrix, even the result's, only for FP8 results, which gptrain does not have; scales
/// only for FP8 operands.
bool has_attributes(const Operation& operation, const Layouts& at) {
    const bool scaled = operation.scale_a != nullptr || operation.scale_b != nullptr;
    return operation.aux_type == -1 && (!scaled || is_fp8(at.a.type));
}

/// The bias, or its gradient, has the result's type; with FP8 operands and an fp32 result it is
/// bf16.
std::int32_t bias_type_of(const Layouts& at) {
    return is_fp8(at.a.type) && at.d.type == CUDA_R_32F ? CUDA_R_16BF : at.d.type;
}

bool has_bias_type(const Operation& operation, const Layouts& at) {
    return operation.bias_type == -1 || operation.bias_type == bias_type_of(at);
}

/// element_at(i, k) of `count` vectors along K, one after the other.
std::vector<double> vectors(std::uint64_t count, std::uint64_t length, const auto& element_at) {
    std::vector<double> result;
    result.reserve(count * length);
    for (std::int64_t i = 0; std::cmp_less(i, count); ++i)
        for (std::int64_t k = 0; std::cmp_less(k, length); ++k)
            result.push_back(element_at(i, k));
    return result;
}

/// Overwrites the bias with the sums over the GEMM's length: of each row of the first operand
/// (BGRADA), or of each column of the second one (BGRADB).
void write_bias_gradient(const Operation& operation, const void* a, const void* b,
                         const Layouts& at, std::uint64_t length) {
    const bool of_a = operation.epilogue == CUBLASLT_EPILOGUE_BGRADA;
    for (std::int64_t i = 0; std::cmp_less(i, of_a ? at.d.rows : at.d.cols); ++i) {
        double sum = 0;
        for (std::int64_t k = 0; std::cmp_less(k, length); ++k) {
            sum += of_a ? element(a, at.a, operation.transpose_a == CUBLAS_OP_T, i, k)
                        : element(b, at.b, operation.transpose_b == CUBLAS_OP_T, k, i);
        }
        write(operation.bias, bias_type_of(at), i, sum);
    }
}

}  // namespace

bool is_fp8(std::int32_t type) {
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

cublasStatus_t support_of(const Operation& operation, const Layouts& at) {
    const bool bias = has_bias(operation.epilogue) || has_bias_gradient(operation.epilogue);
    const bool gelu = has_gelu(operation.epilogue) || operation.epilogue == CUBLASLT_EPILOGUE_DGELU;
    if (!has_attributes(operation, at)) return CUBLAS_STATUS_INVALID_VALUE;
    const bool supported =
        has_types(at) &&
        (!is_fp8(at.a.type) || (has_fp8_form(operation, at) && has_aligned_scales(operation) &&
                                has_block_form(operation, at))) &&
        (!bias || has_bias_type(operation, at)) && (!gelu || has_auxiliary(operation, at));
    return supported ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t multiply(const Operation& operation, const Scales& scales,
                        const Matrix<const void>& a, const Matrix<const void>& b,
                        const Matrix<const void>& c, const Matrix<void>& d) {
    const Layouts at = {a.layout, b.layout, d.layout};
    const std::int32_t bias_type = bias_type_of(at);
    const bool ta = operation.transpose_a == CUBLAS_OP_T;
    const bool tb = operation.transpose_b == CUBLAS_OP_T;
    const std::uint64_t length = ta ? at.a.rows : at.a.cols;
    if ((ta ? at.a.cols : at.a.rows) != at.d.rows || (tb ? at.b.rows : at.b.cols) != at.d.cols ||
        (tb ? at.b.cols : at.b.rows) != length) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    const auto factor = static_cast<double>(scales.of_product);
    const std::vector<double> rows = vectors(at.d.rows, length, [&](auto i, auto k) {
        return element(a.data, at.a, ta, i, k) *
               scale_of(operation.scale_a, operation.scale_mode_a, at.a, k, i);
    });
    const std::vector<double> cols = vectors(at.d.cols, length, [&](auto i, auto k) {
        return element(b.data, at.b, tb, k, i) *
               scale_of(operation.scale_b, operation.scale_mode_b, at.b, k, i);
    });
    const auto weight_of_c = static_cast<double>(scales.of_c);
    for (std::int64_t col = 0; std::cmp_less(col, at.d.cols); ++col) {
        for (std::int64_t row = 0; std::cmp_less(row, at.d.rows); ++row) {
            const double* left = rows.data() + row * static_cast<std::int64_t>(length);
            const double* right = cols.data() + col * static_cast<std::int64_t>(length);
            double sum = std::inner_product(left, left + length, right, 0.0);
            sum *= factor;
            if (weight_of_c != 0) sum += weight_of_c * element(c.data, c.layout, false, row, col);
            if (has_bias(operation.epilogue)) sum += read(operation.bias, bias_type, row);
            if (operation.epilogue == CUBLASLT_EPILOGUE_DGELU) {
                sum *= gelu_slope(read(operation.aux, at.d.type, row + col * operation.aux_stride));
            }
            if (has_gelu(operation.epilogue)) {
                write(operation.aux, at.d.type, row + col * operation.aux_stride, sum);
                sum = gelu(sum);
            }
            write(d.data, at.d.type, row + col * at.d.stride, sum);
        }
    }
    if (has_bias_gradient(operation.epilogue))
        write_bias_gradient(operation, a.data, b.data, at, length);
    return CUBLAS_STATUS_SUCCESS;
}

}  // namespace gptrain::test
