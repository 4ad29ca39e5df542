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
    static std::array<std::int64_t, fake_wide_epilogue + 1> runs{};
    return runs.at(algorithm);
}

std::int64_t& runs_of(FakeKind kind) {
    static std::array<std::int64_t, fake_with_epilogue + 1> runs{};
    return runs.at(kind);
}

/// The key of the code that runs a GEMM: everything that it may depend on.
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
cublasStatus_t make(FakeCall call, void* handle, const T& contents) {
    const cublasStatus_t answer = answer_of(call, fake_plain);
    if (answer != CUBLAS_STATUS_SUCCESS) return answer;
    auto* made = new T(contents);
    std::memcpy(handle, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

/// Sets an attribute; refuses a wrong size, as the library does.
template <class T>
cublasStatus_t assign(T& to, const void* from, std::size_t bytes) {
    if (from == nullptr || bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&to, from, sizeof to);
    return CUBLAS_STATUS_SUCCESS;
}

/// The same for an alignment in bytes, a power of two.
cublasStatus_t assign_alignment(std::uint64_t& to, const void* from, std::size_t bytes) {
    std::uint32_t alignment = 0;
    const cublasStatus_t status = assign(alignment, from, bytes);
    if (status == CUBLAS_STATUS_SUCCESS) to = alignment;
    return status;
}

/// The library derives the alignment of what an epilogue accesses from the addresses, also where it
/// does not dereference them. Without an epilogue nothing is accessed; 16 keeps
/// `fake_wide_epilogue` from being offered.
std::uint64_t epilogue_alignment(const Operation& operation) {
    if (operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return 16;
    return std::min(alignment_of(operation.bias), alignment_of(operation.aux));
}

/// FP8 GEMMs need matrices aligned to 16 bytes.
cublasStatus_t support_of(const Operation& operation, const Layouts& at, const Allowed& allowed) {
    const auto least = *std::min_element(allowed.alignments.begin(), allowed.alignments.end() - 1);
    if (is_fp8(at.a.type) && least < 16) return CUBLAS_STATUS_NOT_SUPPORTED;
    return support_of(operation, at);
}

const Layout& layout_of(cublasLtMatrixLayout_t handle) {
    return *reinterpret_cast<const Layout*>(handle);
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
    return make(fake_create, handle, 0);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete reinterpret_cast<int*>(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
    return make(fake_desc_create, handle, Operation{});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
    delete reinterpret_cast<Operation*>(handle);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* from, std::size_t bytes) {
    auto& operation = *reinterpret_cast<Operation*>(handle);
    const cublasStatus_t answer = answer_of(fake_desc_set, kind_of(operation));
    if (answer != CUBLAS_STATUS_SUCCESS) return answer;
    const auto set = [&](auto& to) { return assign(to, from, bytes); };
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
        case CUBLASLT_MATMUL_DESC_A_SCALE_MODE: return set(operation.scale_mode_a);
        case CUBLASLT_MATMUL_DESC_B_SCALE_MODE: return set(operation.scale_mode_b);
        case CUBLASLT_MATMUL_DESC_FAST_ACCUM: return set(operation.fast);
        case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: return set(operation.multiprocessors);
        default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t cols,
                                          std::int64_t stride) {
    if (stride < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
    return make(fake_layout_create, handle, Layout{type, rows, cols, stride});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
    delete reinterpret_cast<Layout*>(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
    return make(fake_preference_create, handle, Allowed{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
    delete reinterpret_cast<Allowed*>(handle);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* from, std::size_t bytes) {
    auto& allowed = *reinterpret_cast<Allowed*>(handle);
    const cublasStatus_t answer = answer_of(fake_preference_set, fake_plain);
    if (answer != CUBLAS_STATUS_SUCCESS) return answer;
    const auto align = [&](std::size_t matrix) {
        return assign_alignment(allowed.alignments[matrix], from, bytes);
    };
    switch (which) {
        case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
            return assign(allowed.workspace, from, bytes);
        case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
            return assign(allowed.reductions, from, bytes);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return align(0);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return align(1);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return align(2);
        case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return align(3);
        default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t handle,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
    const auto& operation = *reinterpret_cast<const Operation*>(handle);
    *count = 0;
    const cublasStatus_t answer = answer_of(fake_heuristic, kind_of(operation));
    if (answer != CUBLAS_STATUS_SUCCESS) return answer;
    Allowed allowed = *reinterpret_cast<const Allowed*>(preference);
    allowed.alignments.back() = epilogue_alignment(operation);
    const cublasStatus_t support =
        support_of(operation, {layout_of(a), layout_of(b), layout_of(d)}, allowed);
    if (support != CUBLAS_STATUS_SUCCESS) return support;
    for (const FakeAlgorithm algorithm : algorithms_within(allowed)) {
        if (*count == most) break;
        found[*count] = {};
        found[*count].algo.data[0] = algorithm;
        found[*count].workspaceSize = workspace_of(algorithm);
        found[*count].state = CUBLAS_STATUS_SUCCESS;
        ++*count;
    }
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t handle,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
    const auto& operation = *reinterpret_cast<const Operation*>(handle);
    const cublasStatus_t answer = answer_of(fake_check, kind_of(operation));
    if (answer != CUBLAS_STATUS_SUCCESS) return answer;
    const std::uint64_t number = algorithm->data[0];
    if (!is_algorithm(number)) return CUBLAS_STATUS_NOT_SUPPORTED;
    result->workspaceSize = workspace_of(static_cast<FakeAlgorithm>(number));
    return support_of(operation, {layout_of(a), layout_of(b), layout_of(d)});
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t handle, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                              cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* chosen,
                              void* workspace, std::size_t bytes, cudaStream_t) {
    const auto& operation = *reinterpret_cast<const Operation*>(handle);
    const FakeKind kind = kind_of(operation);
    if (answer_of(fake_matmul, kind) != CUBLAS_STATUS_SUCCESS) return answer_of(fake_matmul, kind);
    if (!is_algorithm(chosen->data[0])) return CUBLAS_STATUS_INVALID_VALUE;
    const auto algorithm = static_cast<FakeAlgorithm>(chosen->data[0]);
    ++runs_with(algorithm);
    ++runs_of(kind);
    if (algorithm == fake_refused || algorithm == fake_aligned) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (algorithm == fake_slow && slow_is_refused()) return CUBLAS_STATUS_NOT_SUPPORTED;
    const bool no_room = bytes < workspace_of(algorithm) || (bytes != 0 && workspace == nullptr);
    if (no_room || alignment_of(workspace) != 256) return CUBLAS_STATUS_INVALID_VALUE;
    const Allowed is = {.alignments = {alignment_of(a), alignment_of(b), alignment_of(c),
                                       alignment_of(d), epilogue_alignment(operation)}};
    const Layouts at = {layout_of(layout_a), layout_of(layout_b), layout_of(layout_d)};
    const cublasStatus_t support = support_of(operation, at, is);
    if (support != CUBLAS_STATUS_SUCCESS) return support;
    // On a device the kernel would fail.
    if (!can_access(algorithm, is)) return CUBLAS_STATUS_EXECUTION_FAILED;
    if (algorithm == fake_slow) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(delay_of(kind));
    loaded().insert({algorithm, operation.transpose_a, operation.transpose_b, operation.epilogue,
                     at.a, at.b, at.d});
    const Scales scales = {.of_product = *static_cast<const float*>(alpha),
                           .of_c = *static_cast<const float*>(beta)};
    return multiply(operation, scales, {a, at.a}, {b, at.b}, {c, layout_of(layout_c)}, {d, at.d});
}

}  // extern "C"
