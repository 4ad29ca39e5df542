#include "cuda/gemm/sm90_plan.h"

#include <algorithm>
#include <limits>

namespace gptrain::cuda::sm90 {
namespace {

constexpr std::int64_t piece = 8;  ///< elements of 16 bits in 16 bytes

bool aligned(const std::byte* data, std::int64_t bytes) {
    return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0;
}

/// True if bulk copies can address the matrix of 8 or 16-bit elements: whole pieces of 16 bytes in
/// its contiguous dim, rows aligned.
bool has_whole_pieces(const Matrix& matrix) {
    const bool by_rows = matrix.col_stride == 1;
    const std::int64_t inner = by_rows ? matrix.cols : matrix.rows;
    const std::int64_t stride = by_rows ? matrix.row_stride : matrix.col_stride;
    const std::int64_t elements = 16 / size_of(matrix.dtype);
    return aligned(matrix.data, 16) && inner % elements == 0 && stride % elements == 0 &&
           stride >= inner;
}

/// True if pairs of elements can be read and written at once.
bool has_pairs(const Matrix& matrix) {
    return matrix.cols % piece == 0 && matrix.row_stride % 2 == 0 &&
           aligned(matrix.data, 2 * size_of(matrix.dtype));
}

bool has_layout(const Gemm& gemm) {
    const bool a_by_k = gemm.a.col_stride == 1;
    const bool b_by_k = gemm.b.row_stride == 1 && gemm.b.col_stride != 1;
    return a_by_k || !b_by_k;
}

bool has_result(const Gemm& gemm, DType narrow) {
    const bool wide = gemm.c.dtype == DType::f32;
    if (!wide && (gemm.c.dtype != narrow || !has_whole_pieces(gemm.c))) return false;
    return has_pairs(gemm.c) && aligned(gemm.bias, 2 * size_of(gemm.c.dtype));
}

/// True if the scales are those of blocks of 1 x 128 of a and 128 x 128 of b, in the order in which
/// the kernel reads them.
bool has_block_scales(const Gemm& gemm) {
    const ScaleGrid& a = gemm.a.scales;
    const ScaleGrid& b = gemm.b.scales;
    return a.rows == 1 && a.cols == fp8_block && a.row_step == 1 && b.rows == fp8_block &&
           b.cols == fp8_block && b.row_step == 1;
}

/// The same for blocks of 1 x 128 of both, which bulk copies load: in pieces of 16 bytes.
bool has_strip_scales(const Gemm& gemm) {
    const auto has = [](const Matrix& matrix) {
        const ScaleGrid& grid = matrix.scales;
        return grid.rows == 1 && grid.cols == fp8_block && grid.row_step == 1 &&
               grid.col_step % 4 == 0 && matrix.rows % 4 == 0 &&
               aligned(reinterpret_cast<const std::byte*>(matrix.scale), 16);
    };
    return has(gemm.a) && has(gemm.b.transposed());
}

bool covers_fp8(const Gemm& gemm) {
    const bool wide = gemm.c.dtype == DType::f32;
    const bool outputs = gemm.a.dtype == DType::f8e4m3;
    if (gemm.b.dtype != DType::f8e4m3 || has_gelu_epilogue(gemm) || gemm.has_swiglu() ||
        gemm.a_sums != nullptr)
        return false;
    if (gemm.a.col_stride != 1 || gemm.b.row_stride != 1 || !has_result(gemm, DType::bf16))
        return false;
    if (gemm.a.in_blocks() || gemm.b.in_blocks())
        return outputs && (wide ? has_strip_scales(gemm) : has_block_scales(gemm));
    return outputs ? gemm.fast_accumulation && !wide : !gemm.fast_accumulation;
}

bool is_contiguous(const Matrix& matrix) {
    return matrix.col_stride == 1 && matrix.row_stride == matrix.cols && has_whole_pieces(matrix);
}

/// True if all halves of [fc | gate] have whole pieces, and maps can address both.
bool covers_swiglu(const Gemm& gemm) {
    if (gemm.swiglu.data != nullptr) {
        return layout_of(gemm) == GemmLayout::k_k && gemm.swiglu.cols % piece == 0 &&
               is_contiguous(gemm.swiglu) && is_contiguous(gemm.c) &&
               gemm.b.col_stride == gemm.b.rows;
    }
    return layout_of(gemm) == GemmLayout::k_mn && is_contiguous(gemm.swiglu_input) &&
           is_contiguous(gemm.swiglu_grad);
}

bool covers_16_bits(const Gemm& gemm) {
    const bool wide = gemm.c.dtype == DType::f32;
    if (gemm.a.dtype != gemm.b.dtype || !has_layout(gemm) || !has_result(gemm, gemm.a.dtype))
        return false;
    if (gemm.has_swiglu()) return !wide && covers_swiglu(gemm);
    if (gemm.gelu.data != nullptr)
        return !wide && layout_of(gemm) == GemmLayout::k_k && has_whole_pieces(gemm.gelu);
    if (gemm.gelu_input.data != nullptr)
        return !wide && layout_of(gemm) == GemmLayout::k_mn && has_pairs(gemm.gelu_input);
    return layout_of(gemm) == GemmLayout::k_k || wide == (layout_of(gemm) == GemmLayout::mn_mn);
}

/// The time of all units in steps of one cluster. A unit takes about as long as 4 more steps: until
/// its first operands arrive, and to hand on or store its sums.
std::int64_t time_in_steps(const UnitPlan& plan, std::int64_t clusters) {
    constexpr std::int64_t steps_of_ends = 4;
    return div_ceil(plan.units(), clusters) * (div_ceil(plan.steps, plan.parts) + steps_of_ends);
}

}  // namespace

GemmLayout layout_of(const Gemm& gemm) {
    if (gemm.a.col_stride != 1) return GemmLayout::mn_mn;
    return gemm.b.row_stride == 1 && gemm.b.col_stride != 1 ? GemmLayout::k_k : GemmLayout::k_mn;
}

bool may_divide(const Gemm& gemm) {
    const bool fp8 = gemm.a.is_fp8() && gemm.c.dtype == DType::f32;
    return fp8 || layout_of(gemm) == GemmLayout::mn_mn;
}

bool may_sum_rows(const Gemm& gemm) {
    return gemm.a_sums != nullptr && !gemm.a.is_fp8() && layout_of(gemm) == GemmLayout::mn_mn;
}

bool covers_gemm(const Gemm& gemm) {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;
    const bool sizes = gemm.c.rows > 0 && gemm.c.cols > 0 && gemm.a.cols > 0 &&
                       gemm.c.rows < most && gemm.c.cols < most && gemm.a.cols < most &&
                       UnitPlan(gemm, most_parts).units() < most;
    if (!sizes || !has_whole_pieces(gemm.a) || !has_whole_pieces(gemm.b)) return false;
    return gemm.a.is_fp8() ? covers_fp8(gemm) : size_of(gemm.a.dtype) == 2 && covers_16_bits(gemm);
}

UnitPlan::UnitPlan(const Gemm& gemm, std::int64_t parts_)
    : pairs(div_ceil(gemm.c.rows, tile_rows * cluster_blocks)),
      columns(gemm.swiglu.data != nullptr ? div_ceil(gemm.swiglu.cols, half_columns)
                                          : div_ceil(gemm.c.cols, tile_columns)),
      steps(div_ceil(gemm.a.cols * size_of(gemm.a.dtype), step_bytes)),
      parts(std::min(parts_, steps)),
      row_sums(gemm.a_sums != nullptr ? parts * gemm.c.rows : 0) {}

std::vector<std::int64_t> parts_to_try(const Gemm& gemm, std::int64_t multiprocessors,
                                       std::int64_t bytes) {
    std::vector<std::int64_t> found = {1};
    if (!may_divide(gemm)) return found;
    const std::int64_t clusters = std::max<std::int64_t>(multiprocessors / cluster_blocks, 1);
    std::vector<std::int64_t> divided;
    for (std::int64_t parts = 2; parts <= most_parts; ++parts) {
        const UnitPlan plan(gemm, parts);
        if (plan.parts == parts && plan.scratch_bytes() <= bytes) divided.push_back(parts);
    }
    std::stable_sort(divided.begin(), divided.end(), [&](std::int64_t a, std::int64_t b) {
        return time_in_steps(UnitPlan(gemm, a), clusters) <
               time_in_steps(UnitPlan(gemm, b), clusters);
    });
    constexpr std::size_t most_divided = 2;
    const std::int64_t whole = time_in_steps(UnitPlan(gemm, 1), clusters);
    for (std::size_t i = 0; i < std::min(divided.size(), most_divided); ++i) {
        if (time_in_steps(UnitPlan(gemm, divided[i]), clusters) < whole)
            found.push_back(divided[i]);
    }
    return found;
}

bool covers_grouped(const GroupedGemm& gemm) {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;
    const DType wide = gemm.kind == GroupedKind::weight_grad ? DType::f32 : gemm.a.dtype();
    const auto whole = [](const Tensor& tensor) {
        return tensor.contiguous() && aligned(tensor.data(), 16);
    };
    return size_of(gemm.a.dtype()) == 2 && gemm.b.dtype() == gemm.a.dtype() &&
           gemm.c.dtype() == wide && gemm.rows() > 0 && gemm.weight().elements() > 0 &&
           gemm.outputs() % piece == 0 && gemm.inputs() % piece == 0 && whole(gemm.a) &&
           whole(gemm.b) && whole(gemm.c) && gemm.rows() < most &&
           gemm.parts() * gemm.outputs() < most && gemm.inputs() < most &&
           gemm.parts() * gemm.experts() < most && most_grouped_units(gemm) < most;
}

std::int64_t most_grouped_units(const GroupedGemm& gemm) {
    using enum GroupedKind;
    constexpr std::int64_t pair_rows = tile_rows * cluster_blocks;
    const std::int64_t outputs = div_ceil(gemm.outputs(), tile_columns);
    const std::int64_t inputs = div_ceil(gemm.inputs(), tile_columns);
    if (gemm.kind == weight_grad)
        return gemm.parts() * gemm.experts() * div_ceil(gemm.outputs(), pair_rows) * inputs;
    const std::int64_t pairs = gemm.rows() / pair_rows + std::min(gemm.rows(), gemm.experts());
    return pairs * (gemm.kind == forward ? gemm.parts() * outputs : inputs);
}

}  // namespace gptrain::cuda::sm90
