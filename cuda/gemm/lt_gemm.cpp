#include "cuda/gemm/lt_gemm.h"

#include <algorithm>
#include <bit>
#include <span>

#include "base/error.h"
#include "base/text.h"

// The library's matrices are column-major: our row-major c = a b is its c' = b' a', where x' is the
// same memory read column by column. So its first operand is our b, its rows are our columns, a
// bias that we add to every row is added to every column there, and the sums of our a's rows over K
// are those of its second operand, one for each column of its result: a bias gradient, BGRADB.

namespace gptrain::cuda {
namespace {

/// Rows gain nothing from an alignment beyond this.
constexpr std::uintptr_t full_alignment = 16;

/// A matrix in memory, read as column-major.
struct Layout {
    std::int64_t rows;
    std::int64_t cols;
    std::int64_t stride;  ///< between columns
    bool transposed;      ///< the GEMM takes it transposed
};

Layout layout_of(const Matrix& matrix) {
    GPTRAIN_CHECK(matrix.row_stride == 1 || matrix.col_stride == 1, "a matrix of ", matrix.rows,
                  " x ", matrix.cols, " without a contiguous dim");
    // The stride of a dim of size 1 is arbitrary, but the library wants a plausible one.
    if (matrix.col_stride == 1) {
        return {.rows = matrix.cols,
                .cols = matrix.rows,
                .stride = std::max(matrix.row_stride, matrix.cols),
                .transposed = false};
    }
    return {.rows = matrix.rows,
            .cols = matrix.cols,
            .stride = std::max(matrix.col_stride, matrix.rows),
            .transposed = true};
}

/// The largest power of two, at most full_alignment, that divides the number.
std::int64_t alignment_of(std::uintptr_t number) {
    const std::uintptr_t bits = number | full_alignment;
    return static_cast<std::int64_t>(bits & (~bits + 1));
}

std::int64_t alignment_of(const Matrix& matrix) {
    const std::int64_t stride = layout_of(matrix).stride * size_of(matrix.dtype);
    return alignment_of(reinterpret_cast<std::uintptr_t>(matrix.data) |
                        static_cast<std::uintptr_t>(stride));
}

/// The alignment of what the epilogue reads and writes besides the result; 0 if there is nothing.
std::int64_t epilogue_alignment(const Gemm& gemm) {
    const void* bias = bias_vector_of(gemm);
    const std::int64_t of_bias =
        bias == nullptr ? 0 : alignment_of(reinterpret_cast<std::uintptr_t>(bias));
    if (!has_gelu_epilogue(gemm)) return of_bias;
    const std::int64_t of_matrix = alignment_of(auxiliary_of(gemm));
    return of_bias == 0 ? of_matrix : std::min(of_bias, of_matrix);
}

cublasLtEpilogue_t epilogue_of(const Gemm& gemm) {
    if (gemm.a_sums != nullptr) return CUBLASLT_EPILOGUE_BGRADB;
    const bool bias = gemm.bias != nullptr;
    if (gemm.gelu.data != nullptr)
        return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    if (bias) return CUBLASLT_EPILOGUE_BIAS;
    return gemm.gelu_input.data != nullptr ? CUBLASLT_EPILOGUE_DGELU : CUBLASLT_EPILOGUE_DEFAULT;
}

cudaDataType_t library_type(DType dtype) {
    switch (dtype) {
        case DType::f32: return CUDA_R_32F;
        case DType::bf16: return CUDA_R_16BF;
        case DType::f16: return CUDA_R_16F;
        case DType::f8e4m3: return CUDA_R_8F_E4M3;
        case DType::f8e5m2: return CUDA_R_8F_E5M2;
        default: fail(ExitCode::bug, "no GEMM of ", name_of(dtype));
    }
}

LtHandle<cublasLtMatmulDesc_t> make_operation(const LtLibrary& library) {
    cublasLtMatmulDesc_t operation = nullptr;
    // fp32 operands keep full precision: TF32 would be another compute type.
    library.check(library.functions.desc_create(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                  "cublasLtMatmulDescCreate");
    return {operation, library.functions.desc_destroy};
}

LtHandle<cublasLtMatrixLayout_t> make_layout(const LtLibrary& library, const Matrix& matrix) {
    const Layout shape = layout_of(matrix);
    cublasLtMatrixLayout_t layout = nullptr;
    library.check(library.functions.layout_create(
                      &layout, library_type(matrix.dtype), static_cast<std::uint64_t>(shape.rows),
                      static_cast<std::uint64_t>(shape.cols), shape.stride),
                  "cublasLtMatrixLayoutCreate");
    return {layout, library.functions.layout_destroy};
}

cublasOperation_t operation_of(const Matrix& matrix) {
    return layout_of(matrix).transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

// The modes of scales for blocks, which cublasLt.h names from CUDA 12.9 on: VEC128_32F and
// BLK128x128_32F.
constexpr std::int32_t vector_scales = 4;
constexpr std::int32_t square_scales = 5;

/// The scales of a [K, N] operand. Its scales follow the library's layout without gaps: of blocks
/// of 128 elements of K, those of all N lie together; of blocks of 128 x 128, those of all K,
/// padded to a multiple of 4.
std::int32_t scale_mode_of(const Matrix& matrix) {
    const ScaleGrid& grid = matrix.scales;
    const bool vectors = grid.cols == 1 && grid.col_step == 1 && grid.row_step == matrix.cols;
    const bool squares = grid.cols == fp8_block && grid.row_step == 1 &&
                         grid.col_step == round_up(matrix.rows / fp8_block, 4);
    GPTRAIN_CHECK(grid.rows == fp8_block && (vectors || squares), "scales of a part of ",
                  matrix.rows, " x ", matrix.cols);
    return vectors ? vector_scales : square_scales;
}

/// How sums are made: 0 in fp32, 1 with fast accumulation, in blocks 2, or 3 if both operands have
/// blocks of 1 x 128.
std::int64_t sums_of(const Gemm& gemm) {
    if (!gemm.a.in_blocks()) return gemm.fast_accumulation ? 1 : 0;
    return gemm.a.scales.rows == 1 && gemm.b.scales.cols == 1 ? 3 : 2;
}

/// True if the GEMM has no more beside the products than Gemm allows in blocks.
bool is_plain_in_blocks(const Gemm& gemm) {
    return !gemm.fast_accumulation && gemm.gelu_input.data == nullptr &&
           gemm.gelu.data == nullptr && gemm.a_sums == nullptr &&
           (!gemm.accumulate || (gemm.c.dtype == DType::f32 && gemm.bias == nullptr));
}

/// The epilogue as the key has it: the library's, or those that only our kernel has.
std::int64_t epilogue_number_of(const Gemm& gemm) {
    constexpr std::int64_t swiglu = std::int64_t{1} << 32;
    if (gemm.swiglu_input.data != nullptr) return 2 * swiglu;
    if (gemm.swiglu.data != nullptr) return swiglu + (gemm.bias != nullptr ? 1 : 0);
    return epilogue_of(gemm);
}

}  // namespace

// ---- the key ------------------------------------------------------------------------------------

GemmKey key_of(const Gemm& gemm) {
    const Layout a = layout_of(gemm.a);
    const Layout b = layout_of(gemm.b);
    return {gemm.a.rows,
            gemm.a.cols,
            gemm.b.cols,
            a.stride,
            b.stride,
            layout_of(result_of(gemm)).stride,
            has_gelu_epilogue(gemm) ? auxiliary_of(gemm).row_stride : 0,
            a.transposed,
            b.transposed,
            static_cast<std::int64_t>(gemm.a.dtype),
            static_cast<std::int64_t>(gemm.b.dtype),
            static_cast<std::int64_t>(gemm.c.dtype),
            epilogue_number_of(gemm),
            gemm.accumulate,
            sums_of(gemm),
            alignment_of(gemm.a),
            alignment_of(gemm.b),
            alignment_of(result_of(gemm)),
            epilogue_alignment(gemm),
            gemm.multiprocessors};
}

std::string to_text(const GemmKey& key) {
    std::string word;
    for (const std::int64_t part : std::span(key).first(key.size() - (key.back() == 0 ? 1 : 0)))
        word += text(word.empty() ? "" : ",", part);
    return word;
}

// ---- the library --------------------------------------------------------------------------------

void LtLibrary::check(cublasStatus_t status, std::string_view call) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED;
    fail(memory ? ExitCode::usage : ExitCode::bug, "cuBLASLt: ", call, ": ",
         functions.status_string(status));
}

bool is_declined(cublasStatus_t status) {
    // Undocumented combinations of types and epilogues are invalid values in some versions.
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH ||
           status == CUBLAS_STATUS_INVALID_VALUE;
}

LtGemm::LtGemm(const LtLibrary& library, const Gemm& gemm)
    : library_(library),
      may_decline_(gemm.has_epilogue() || gemm.a.in_blocks()),
      operation_(make_operation(library)),
      a_(make_layout(library, gemm.b)),
      b_(make_layout(library, gemm.a)),
      c_(make_layout(library, result_of(gemm))),
      alignments_{alignment_of(gemm.b), alignment_of(gemm.a), alignment_of(result_of(gemm))} {
    GPTRAIN_CHECK(gemm.a.cols == gemm.b.rows && gemm.a.rows == gemm.c.rows &&
                      gemm.b.cols == gemm.c.cols && gemm.c.col_stride == 1 &&
                      (gemm.a.is_fp8() ? gemm.b.is_fp8() : gemm.a.dtype == gemm.b.dtype) &&
                      gemm.a.in_blocks() == gemm.b.in_blocks() &&
                      (!gemm.a.in_blocks() || is_plain_in_blocks(gemm)) &&
                      (gemm.a_sums == nullptr || gemm.c.dtype == DType::f32),
                  "a GEMM of ", gemm.a.rows, " x ", gemm.a.cols, " and ", gemm.b.rows, " x ",
                  gemm.b.cols, " to ", gemm.c.rows, " x ", gemm.c.cols);
    described_ = describe(gemm);
}

bool LtGemm::describe(const Gemm& gemm) const {
    // While it chooses, the library reads only the alignment of these addresses. Give it the
    // alignment that is in the key.
    Gemm aligned = gemm;
    auto* address = reinterpret_cast<std::byte*>(epilogue_alignment(gemm));
    if (gemm.bias != nullptr) aligned.bias = address;
    if (gemm.a_sums != nullptr) aligned.a_sums = reinterpret_cast<float*>(address);
    if (gemm.gelu_input.data != nullptr) aligned.gelu_input.data = address;
    if (gemm.gelu.data != nullptr) aligned.c.data = address;
    return set(CUBLASLT_MATMUL_DESC_TRANSA, operation_of(gemm.b)) &&
           set(CUBLASLT_MATMUL_DESC_TRANSB, operation_of(gemm.a)) &&
           // By its documentation, the library's heuristics then choose for fewer multiprocessors.
           // It need not start fewer blocks.
           (gemm.multiprocessors == 0 ||
            set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, gemm.multiprocessors)) &&
           (!gemm.fast_accumulation || set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1})) &&
           set_scales(gemm) && set_epilogue(gemm) && set_addresses(aligned);
}

bool LtGemm::set_scales(const Gemm& gemm) const {
    if (!gemm.a.in_blocks()) return true;
    return set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scale_mode_of(gemm.b)) &&
           set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scale_mode_of(gemm.a.transposed()));
}

bool LtGemm::set_epilogue(const Gemm& gemm) const {
    const cublasLtEpilogue_t epilogue = epilogue_of(gemm);
    const auto dtype = static_cast<std::int32_t>(library_type(gemm.c.dtype));
    // By default the auxiliary matrix has the type of the result, as ours does.
    return set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue) &&
           (bias_vector_of(gemm) == nullptr || set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, dtype)) &&
           (!has_gelu_epilogue(gemm) ||
            set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, auxiliary_of(gemm).row_stride));
}

bool LtGemm::set_addresses(const Gemm& gemm) const {
    const void* bias = bias_vector_of(gemm);
    return (bias == nullptr || set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)) &&
           (!has_gelu_epilogue(gemm) ||
            set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, auxiliary_of(gemm).data)) &&
           (!gemm.a.is_fp8() || (set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, gemm.b.scale) &&
                                 set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, gemm.a.scale)));
}

std::vector<Algorithm> LtGemm::candidates(int most, std::int64_t workspace_bytes) const {
    if (!described_) return {};
    const CublasLt& lt = library_.functions;
    cublasLtMatmulPreference_t made = nullptr;
    library_.check(lt.preference_create(&made), "cublasLtMatmulPreferenceCreate");
    const LtHandle<cublasLtMatmulPreference_t> preference(made, lt.preference_destroy);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
        library_.check(lt.preference_set(preference.get(), which, &value, sizeof value),
                       "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes));
    // Allow parts of a long sum to be added in fp32 in a fixed order, but not in 16 bits or in the
    // order in which blocks finish.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(alignments_[0]));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(alignments_[1]));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(alignments_[2]));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(alignments_[2]));

    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
    int count = 0;
    const cublasStatus_t status =
        lt.heuristic(library_.handle(), operation_.get(), a_.get(), b_.get(), c_.get(), c_.get(),
                     preference.get(), most, found.data(), &count);
    if (is_declined(status)) return {};
    library_.check(status, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<Algorithm> result;
    for (int i = 0; i < count; ++i) {
        const auto& candidate = found[static_cast<std::size_t>(i)];
        if (candidate.state == CUBLAS_STATUS_SUCCESS)
            result.push_back(std::bit_cast<Algorithm>(candidate.algo));
    }
    return result;
}

bool LtGemm::runs(const Algorithm& algorithm, std::int64_t workspace_bytes) const {
    if (!described_) return false;
    cublasLtMatmulHeuristicResult_t result{};
    const auto as = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
    const cublasStatus_t status = library_.functions.check(
        library_.handle(), operation_.get(), a_.get(), b_.get(), c_.get(), c_.get(), &as, &result);
    return status == CUBLAS_STATUS_SUCCESS &&
           std::cmp_less_equal(result.workspaceSize, workspace_bytes);
}

cublasStatus_t LtGemm::run(const Gemm& gemm, const Algorithm& algorithm, const Stream& stream,
                           std::byte* workspace, std::int64_t workspace_bytes) const {
    if (!set_addresses(gemm)) return CUBLAS_STATUS_NOT_SUPPORTED;
    const float alpha = 1;
    const float beta = gemm.accumulate ? 1 : 0;
    std::byte* result = result_of(gemm).data;
    const auto as = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
    return library_.functions.matmul(library_.handle(), operation_.get(), &alpha, gemm.b.data,
                                     a_.get(), gemm.a.data, b_.get(), &beta, result, c_.get(),
                                     result, c_.get(), &as, workspace,
                                     static_cast<std::size_t>(workspace_bytes), stream.handle());
}

}  // namespace gptrain::cuda
