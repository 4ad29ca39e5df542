// Stands in for cuBLASLt on machines without a GPU: the functions that GEMMs use, computed naively
// on host memory. Column-major, sums in double.
#include "cuda/fake_cublas_lt.h"

#include <array>
#include <chrono>
#include <cmath>
#include <compare>
#include <cstring>
#include <cublasLt.h>
#include <set>
#include <thread>

#include "base/fp8.h"

namespace {

using namespace gptrain;

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
    std::int8_t fast = 0;
};

struct Layout {
    std::int32_t type;
    std::uint64_t rows;
    std::uint64_t cols;
    std::int64_t stride;
    auto operator<=>(const Layout&) const = default;
};

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

std::int64_t& runs_with(std::uint64_t algorithm) {
    static std::array<std::int64_t, fake_fast + 1> runs{};
    return runs.at(algorithm);
}

std::int64_t& runs_of(FakeKind kind) {
    static std::array<std::int64_t, fake_with_epilogue + 1> runs{};
    return runs.at(kind);
}

/// What the code that runs a GEMM may depend on.
struct Code {
    std::uint64_t algorithm;
    cublasOperation_t transpose_a;
    cublasOperation_t transpose_b;
    cublasLtEpilogue_t epilogue;
    Layout a;
    Layout b;
    Layout d;
    auto operator<=>(const Code&) const = default;
};

std::set<Code>& loaded() {
    static std::set<Code> loaded;
    return loaded;
}

std::chrono::milliseconds& delay_of(FakeKind kind) {
    static std::array<std::chrono::milliseconds, fake_with_epilogue + 1> delays{};
    return delays.at(kind);
}

bool& slow_is_refused() {
    static bool refused = false;
    return refused;
}

cublasStatus_t& answer_of(FakeCall call, FakeKind kind) {
    static std::array<std::array<cublasStatus_t, fake_with_epilogue + 1>, fake_matmul + 1>
        answers{};
    return answers.at(call).at(kind);
}

FakeKind kind_of(const Operation& operation) {
    return operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT ? fake_plain : fake_with_epilogue;
}

bool is_fp8(std::int32_t type) {
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

/// The operands, and the result.
struct Layouts {
    const Layout& a;
    const Layout& b;
    const Layout& d;
};

/// The types that cublasLtMatmul's documentation lists for CUBLAS_COMPUTE_32F with factors in fp32,
/// as far as gptrain has them.
bool has_types(const Layouts& at) {
    if (is_fp8(at.a.type)) {
        return is_fp8(at.b.type) && !(at.a.type == CUDA_R_8F_E5M2 && at.b.type == CUDA_R_8F_E5M2) &&
               !is_fp8(at.d.type);
    }
    return at.a.type == at.b.type && (at.d.type == at.a.type || at.d.type == CUDA_R_32F);
}

/// FP8: the first operand transposed, the second not, all dims and strides multiples of 16 bytes.
bool has_fp8_form(const Operation& operation, const Layouts& at) {
    const auto whole = [](const Layout& layout) {
        return layout.rows % 16 == 0 && layout.cols % 16 == 0 && layout.stride % 16 == 0;
    };
    return operation.transpose_a == CUBLAS_OP_T && operation.transpose_b == CUBLAS_OP_N &&
           whole(at.a) && whole(at.b) && whole(at.d);
}

/// The auxiliary matrix of GELU has the result's type, and columns that begin at multiples of 8
/// elements.
bool has_auxiliary(const Operation& operation, const Layouts& at) {
    return (operation.aux_type == -1 || operation.aux_type == at.d.type) &&
           operation.aux_stride % 8 == 0 && std::cmp_greater_equal(operation.aux_stride, at.d.rows);
}

/// The bias, or its gradient, has the result's type; with FP8 operands and an fp32 result it is
/// bf16.
std::int32_t bias_type_of(const Layouts& at) {
    return is_fp8(at.a.type) && at.d.type == CUDA_R_32F ? CUDA_R_16BF : at.d.type;
}

bool has_bias_type(const Operation& operation, const Layouts& at) {
    return operation.bias_type == -1 || operation.bias_type == bias_type_of(at);
}

bool is_supported(const Operation& operation, const Layouts& at) {
    const bool bias = has_bias(operation.epilogue) || has_bias_gradient(operation.epilogue);
    const bool gelu = has_gelu(operation.epilogue) || operation.epilogue == CUBLASLT_EPILOGUE_DGELU;
    return has_types(at) && (!is_fp8(at.a.type) || has_fp8_form(operation, at)) &&
           (!bias || has_bias_type(operation, at)) && (!gelu || has_auxiliary(operation, at));
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

template <class T>
cublasStatus_t make(void* handle, const T& contents) {
    auto* made = new T(contents);
    std::memcpy(handle, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

std::int64_t fake_cublas_lt_runs(FakeAlgorithm algorithm) {
    return runs_with(algorithm);
}

std::int64_t fake_cublas_lt_runs_of(FakeKind kind) {
    return runs_of(kind);
}

std::int64_t fake_cublas_lt_loads() {
    return std::ssize(loaded());
}

void fake_cublas_lt_delay(FakeKind kind, std::int64_t milliseconds) {
    delay_of(kind) = std::chrono::milliseconds(milliseconds);
}

void fake_cublas_lt_refuse_slow(bool refuse) {
    slow_is_refused() = refuse;
}

void fake_cublas_lt_answer(FakeCall call, FakeKind kind, int status) {
    answer_of(call, kind) = static_cast<cublasStatus_t>(status);
}

std::size_t cublasLtGetVersion() {
    return CUBLAS_VERSION;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_INVALID_VALUE ? "invalid value" : "fault";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    return make(handle, 0);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete reinterpret_cast<int*>(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
    return make(handle, Operation{});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
    delete reinterpret_cast<Operation*>(handle);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* from, std::size_t bytes) {
    auto& operation = *reinterpret_cast<Operation*>(handle);
    const auto set = [&](auto& to) {
        if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
        std::memcpy(&to, from, sizeof to);
        return CUBLAS_STATUS_SUCCESS;
    };
    switch (which) {
        case CUBLASLT_MATMUL_DESC_TRANSA: return set(operation.transpose_a);
        case CUBLASLT_MATMUL_DESC_TRANSB: return set(operation.transpose_b);
        case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(operation.epilogue);
        case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(operation.bias);
        case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(operation.bias_type);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return set(operation.aux);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: return set(operation.aux_type);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return set(operation.aux_stride);
        case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: return set(operation.scale_a);
        case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: return set(operation.scale_b);
        case CUBLASLT_MATMUL_DESC_FAST_ACCUM: return set(operation.fast);
        default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t cols,
                                          std::int64_t stride) {
    if (stride < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
    return make(handle, Layout{type, rows, cols, stride});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
    delete reinterpret_cast<Layout*>(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
    return make(handle, 0);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
    delete reinterpret_cast<int*>(handle);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t handle,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
    const auto& operation = *reinterpret_cast<const Operation*>(handle);
    const auto of = [](cublasLtMatrixLayout_t layout) -> const Layout& {
        return *reinterpret_cast<const Layout*>(layout);
    };
    *count = 0;
    const cublasStatus_t answer = answer_of(fake_heuristic, kind_of(operation));
    if (answer != CUBLAS_STATUS_SUCCESS) return answer;
    if (!is_supported(operation, {of(a), of(b), of(d)})) return CUBLAS_STATUS_NOT_SUPPORTED;
    for (; *count < std::min<int>(most, fake_fast); ++*count) {
        found[*count] = {};
        found[*count].algo.data[0] = static_cast<std::uint64_t>(*count) + 1;
        found[*count].state = CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t*) {
    return algorithm->data[0] <= fake_fast ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t handle, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                              cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t,
                              cudaStream_t) {
    const auto& operation = *reinterpret_cast<const Operation*>(handle);
    const FakeKind kind = kind_of(operation);
    if (answer_of(fake_matmul, kind) != CUBLAS_STATUS_SUCCESS) return answer_of(fake_matmul, kind);
    ++runs_with(algorithm->data[0]);
    ++runs_of(kind);
    if (algorithm->data[0] == fake_refused) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (algorithm->data[0] == fake_slow && slow_is_refused()) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (algorithm->data[0] == fake_slow)
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    std::this_thread::sleep_for(delay_of(kind));
    const auto& of_a = *reinterpret_cast<const Layout*>(layout_a);
    const auto& of_b = *reinterpret_cast<const Layout*>(layout_b);
    const auto& of_c = *reinterpret_cast<const Layout*>(layout_c);
    const auto& of_d = *reinterpret_cast<const Layout*>(layout_d);
    if (!is_supported(operation, {of_a, of_b, of_d})) return CUBLAS_STATUS_NOT_SUPPORTED;
    loaded().insert({algorithm->data[0], operation.transpose_a, operation.transpose_b,
                     operation.epilogue, of_a, of_b, of_d});
    const std::int32_t aux_type = operation.aux_type == -1 ? of_d.type : operation.aux_type;
    const std::int32_t bias_type = bias_type_of({of_a, of_b, of_d});
    const bool ta = operation.transpose_a == CUBLAS_OP_T;
    const bool tb = operation.transpose_b == CUBLAS_OP_T;
    const std::uint64_t length = ta ? of_a.rows : of_a.cols;
    if ((ta ? of_a.cols : of_a.rows) != of_d.rows || (tb ? of_b.rows : of_b.cols) != of_d.cols ||
        (tb ? of_b.cols : of_b.rows) != length) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    double factor = static_cast<double>(*static_cast<const float*>(alpha));
    if (operation.scale_a != nullptr) factor *= static_cast<double>(*operation.scale_a);
    if (operation.scale_b != nullptr) factor *= static_cast<double>(*operation.scale_b);
    const auto weight_of_c = static_cast<double>(*static_cast<const float*>(beta));
    for (std::int64_t col = 0; std::cmp_less(col, of_d.cols); ++col) {
        for (std::int64_t row = 0; std::cmp_less(row, of_d.rows); ++row) {
            double sum = 0;
            for (std::int64_t k = 0; std::cmp_less(k, length); ++k)
                sum += element(a, of_a, ta, row, k) * element(b, of_b, tb, k, col);
            sum *= factor;
            if (weight_of_c != 0) sum += weight_of_c * element(c, of_c, false, row, col);
            if (has_bias(operation.epilogue)) sum += read(operation.bias, bias_type, row);
            if (operation.epilogue == CUBLASLT_EPILOGUE_DGELU) {
                sum *= gelu_slope(read(operation.aux, aux_type, row + col * operation.aux_stride));
            }
            if (has_gelu(operation.epilogue)) {
                write(operation.aux, aux_type, row + col * operation.aux_stride, sum);
                sum = gelu(sum);
            }
            write(d, of_d.type, row + col * of_d.stride, sum);
        }
    }
    if (has_bias_gradient(operation.epilogue))
        write_bias_gradient(operation, a, b, {of_a, of_b, of_d}, length);
    return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
