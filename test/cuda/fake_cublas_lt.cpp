// Stands in for cuBLASLt on machines without a GPU: the functions that GEMMs use. fake_matmul.h has
// what they compute.
#include "cuda/fake_cublas_lt.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <cublasLt.h>
#include <set>
#include <thread>

#include "cuda/fake_matmul.h"

namespace {

using namespace gptrain::test;

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
    const Scales scales = {.of_product = *static_cast<const float*>(alpha),
                           .of_c = *static_cast<const float*>(beta)};
    return multiply(operation, scales, {a, of_a}, {b, of_b}, {c, of_c}, {d, of_d});
}

}  // extern "C"
