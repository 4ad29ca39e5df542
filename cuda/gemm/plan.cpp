#include "cuda/gemm/plan.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace gptrain::cuda {
namespace {

/// The tuning table's entry, in place of an algorithm, for a GEMM with a separate epilogue.
constexpr std::string_view separate_word = "apart";
/// The same for a GEMM of our kernel for sm_90a, before the number of parts.
constexpr std::string_view sm90_word = "sm90:";
/// After that number, if the kernel computes a_sums too.
constexpr std::string_view row_sums_word = "+sums";

/// A group of rows whose fp32 sums are buffered is a multiple of the first of these that it
/// reaches, so that GEMM tiles are full, or at least FP8 is possible.
constexpr std::int64_t row_multiples[] = {256, 16};

struct Range {
    std::int64_t begin;
    std::int64_t count;
};

/// True if the GEMM is divided in the dim of this size, at the last multiple of fast_multiple.
bool is_divided(const Gemm& gemm, std::int64_t size) {
    return size_of(gemm.a.dtype) == 2 && size > fast_multiple && size % fast_multiple != 0;
}

/// All of this size of the GEMM, or its two parts.
std::vector<Range> ranges_of(const Gemm& gemm, std::int64_t size) {
    if (!is_divided(gemm, size)) return {{0, size}};
    const std::int64_t rest = size % fast_multiple;
    return {{0, size - rest}, {size - rest, rest}};
}

/// True for a weight gradient: a's columns are contiguous. Its rows are divided, which are the
/// outputs of the layer, such as a vocabulary; the inputs, its columns, are no odd number in
/// practice. Any other GEMM is divided in its columns and in the summed dim.
bool is_weight_gradient(const Gemm& gemm) {
    return gemm.a.row_stride == 1 && (gemm.a.col_stride != 1 || gemm.a.rows == 1);
}

/// Some rows and columns of the result.
Gemm part_of(const Gemm& gemm, const Range& rows, const Range& cols) {
    const auto block = [&](const Matrix& matrix) {
        return matrix.block(rows.begin, rows.count, cols.begin, cols.count);
    };
    Gemm part = gemm;
    part.a = gemm.a.block(rows.begin, rows.count, 0, gemm.a.cols);
    part.b = gemm.b.block(0, gemm.b.rows, cols.begin, cols.count);
    part.c = block(gemm.c);
    if (gemm.gelu_input.data != nullptr) part.gelu_input = block(gemm.gelu_input);
    if (gemm.bias != nullptr) part.bias += cols.begin * size_of(gemm.c.dtype);
    return part;
}

/// Rows of c whose fp32 sums are buffered at a time.
std::int64_t buffered_rows(std::int64_t cols) {
    const std::int64_t rows = linear_sums_bytes / (4 * cols);
    for (const std::int64_t multiple : row_multiples) {
        if (rows >= multiple) return rows / multiple * multiple;
    }
    return std::max<std::int64_t>(rows, 1);
}

/// True if the library rounds as Gemm states. cuBLASLt 13 on an H100 rounds a product before it
/// adds it to 16 bits, and before it adds a bias where sizes or strides are no multiples of 8.
bool rounds_right(const Gemm& gemm) {
    if (gemm.c.dtype == DType::f32) return true;
    return !gemm.accumulate && gemm.a.cols % fast_multiple == 0 &&
           gemm.b.cols % fast_multiple == 0 && gemm.c.row_stride % fast_multiple == 0;
}

bool can_fuse_gelu(const Gemm& gemm, const GemmRules& rules) {
    // The epilogue's GELU is approximate; rounding to 16 bits hides the error, fp32 does not. We
    // assume, but have not measured, that before Hopper it is slower than a separate kernel.
    constexpr int hopper = 9;
    constexpr std::int64_t library_multiple = 8;
    return rules.device_major >= hopper && gemm.c.dtype != DType::f32 && !gemm.a.is_fp8() &&
           auxiliary_of(gemm).row_stride % library_multiple == 0;
}

/// True if one call of the library may compute the GEMM with its epilogue.
bool can_fuse(const Gemm& gemm, const GemmRules& rules) {
    if (gemm.has_swiglu()) return false;
    // The library applies GELU to the sums before it rounds them; recomputed from what was stored,
    // it has other bits.
    if (gemm.gelu.data != nullptr && rules.deterministic) return false;
    // The library would store the sums of FP8 rows in bf16.
    if (gemm.a_sums != nullptr && gemm.a.is_fp8()) return false;
    return rounds_right(gemm) && (!has_gelu_epilogue(gemm) || can_fuse_gelu(gemm, rules));
}

/// Adds our kernel for sm_90a where that is chosen; returns false if it is not.
bool add_sm90(GemmPlan& plan, const Gemm& gemm, const GemmRules& rules) {
    const Sm90Choice choice = rules.sm90 ? rules.sm90(gemm) : Sm90Choice();
    if (choice.parts == 0) return false;
    const Gemm part = sm90_part_of(gemm, choice);
    plan.push_back({.kind = GemmPart::Kind::sm90, .gemm = part, .sm90_parts = choice.parts});
    if (part.a_sums != gemm.a_sums)
        plan.push_back({.kind = GemmPart::Kind::row_sums, .gemm = gemm});
    return true;
}

/// Adds a call of the library; returns false if the GEMM has to be separate.
bool add_call(GemmPlan& plan, const Gemm& gemm, const GemmRules& rules) {
    if (is_separable(gemm) && !can_fuse(gemm, rules)) return false;
    const GemmChoice choice = rules.choose(gemm);
    if (is_separable(gemm) && choice.separate) return false;
    plan.push_back({.gemm = gemm, .algorithm = choice.algorithm});
    return true;
}

/// Adds plain GEMMs, in parts of the summed dim, then the epilogue as a kernel. The result must be
/// rounded only once, so 16-bit GEMMs keep their sums in fp32, for a few rows at a time that stay
/// in the L2 cache. Memory traffic per element is then that of a fused epilogue: 2 bytes for the
/// result and 2 for gelu_input. Buffering the sums of all rows would write and read 8 bytes more;
/// storing 16-bit results before the epilogue would cost 4 bytes more and round twice. If c is
/// fp32, it holds the sums itself.
void add_separate(GemmPlan& plan, const Gemm& gemm, const GemmRules& rules) {
    const bool in_place = gemm.c.dtype == DType::f32;
    const std::int64_t step = in_place ? gemm.c.rows : buffered_rows(gemm.c.cols);
    Scratch scratch = rules.scratch;
    float* buffer = nullptr;
    if (!in_place) buffer = scratch.take<float>(std::min(step, gemm.c.rows) * gemm.c.cols);
    for (std::int64_t row = 0; row < gemm.c.rows; row += step) {
        const Range range = {row, std::min(step, gemm.c.rows - row)};
        const Gemm rows = part_of(gemm, range, {0, gemm.c.cols});
        const Matrix sums = in_place ? gemm.c : Matrix(buffer, range.count, gemm.c.cols);
        for (const auto& [begin, count] : ranges_of(gemm, gemm.a.cols)) {
            add_call(plan,
                     {.a = rows.a.block(0, range.count, begin, count),
                      .b = rows.b.block(begin, count, 0, gemm.c.cols),
                      .c = sums,
                      .accumulate = begin > 0 || (in_place && gemm.accumulate),
                      .fast_accumulation = gemm.fast_accumulation,
                      .multiprocessors = gemm.multiprocessors},
                     rules);
        }
        if (!in_place || gemm.has_epilogue())
            plan.push_back({.kind = GemmPart::Kind::epilogue, .gemm = rows, .sums = sums});
    }
}

void add(GemmPlan& plan, const Gemm& gemm, const GemmRules& rules);

/// True if the epilogue belongs to all of c.
bool is_whole(const Gemm& gemm) {
    return gemm.gelu.data != nullptr || gemm.has_swiglu() || gemm.a_sums != nullptr;
}

/// Such a GEMM is one kernel, or another one follows it.
void add_whole(GemmPlan& plan, const Gemm& gemm, const GemmRules& rules) {
    if (add_sm90(plan, gemm, rules)) return;
    const bool fused = add_call(plan, gemm, rules);
    if (!fused) {
        Gemm plain = gemm;
        plain.gelu = plain.swiglu = plain.swiglu_input = plain.swiglu_grad = {};
        plain.a_sums = plain.a_totals = nullptr;
        add(plan, plain, rules);
    }
    if (gemm.a_sums != nullptr) {
        plan.push_back(
            {.kind = fused ? GemmPart::Kind::add_sums : GemmPart::Kind::row_sums, .gemm = gemm});
    } else if (!fused) {
        const bool gelu = gemm.gelu.data != nullptr;
        plan.push_back(
            {.kind = gelu ? GemmPart::Kind::gelu : GemmPart::Kind::swiglu, .gemm = gemm});
    }
}

void add(GemmPlan& plan, const Gemm& gemm, const GemmRules& rules) {
    if (gemm.c.rows == 0 || gemm.c.cols == 0) return;
    if (is_whole(gemm)) return add_whole(plan, gemm, rules);
    const bool by_rows = is_weight_gradient(gemm);
    for (const Range& range : ranges_of(gemm, by_rows ? gemm.c.rows : gemm.c.cols)) {
        const Gemm part = by_rows ? part_of(gemm, range, {0, gemm.c.cols})
                                  : part_of(gemm, {0, gemm.c.rows}, range);
        if (add_sm90(plan, part, rules)) continue;
        if (!add_call(plan, part, rules)) add_separate(plan, part, rules);
    }
}

}  // namespace

bool is_separable(const Gemm& gemm) {
    // The library reads the scales of all rows, not of a part.
    if (gemm.a.in_blocks()) return false;
    const bool adds_to_16_bits = gemm.accumulate && gemm.c.dtype != DType::f32;
    const bool sum_divided = !is_weight_gradient(gemm) && is_divided(gemm, gemm.a.cols);
    return gemm.has_epilogue() || adds_to_16_bits || sum_divided;
}

Gemm sm90_part_of(const Gemm& gemm, const Sm90Choice& choice) {
    Gemm part = gemm;
    if (!choice.sums_rows) part.a_sums = part.a_totals = nullptr;
    return part;
}

GemmPlan plan_of(const Gemm& gemm, const GemmRules& rules) {
    GemmPlan plan;
    add(plan, gemm, rules);
    return plan;
}

std::string to_text(const GemmChoice& choice) {
    if (choice.sm90.parts != 0)
        return text(sm90_word, choice.sm90.parts, choice.sm90.sums_rows ? row_sums_word : "");
    if (choice.separate) return std::string(separate_word);
    constexpr std::string_view digits = "0123456789abcdef";
    std::string word;
    for (const std::uint64_t part : choice.algorithm.value()) {
        for (int shift = 60; shift >= 0; shift -= 4)
            word += digits[part >> shift & 15];
    }
    return word;
}

std::string key_of(const GroupedGemm& gemm) {
    constexpr std::string_view kinds[] = {"forward", "input_grad", "weight_grad"};
    std::string key =
        text("grouped:", kinds[static_cast<int>(gemm.kind)], ',', name_of(gemm.a.dtype()));
    for (const std::int64_t part :
         {gemm.parts(), gemm.experts(), gemm.outputs(), gemm.inputs(), gemm.rows(), gemm.expected,
          std::int64_t{gemm.bias.empty() ? 0 : 1}, std::int64_t{gemm.accumulate ? 1 : 0}})
        key += text(',', part);
    return key;
}

GemmChoice choice_of(std::string_view word) {
    if (word == separate_word) return {.separate = true};
    if (word.starts_with(sm90_word)) {
        word.remove_prefix(sm90_word.size());
        const bool sums_rows = word.ends_with(row_sums_word);
        if (sums_rows) word.remove_suffix(row_sums_word.size());
        const auto parts = parse_int(word);
        if (!parts || *parts <= 0) return {};
        return {.sm90 = {.parts = *parts, .sums_rows = sums_rows}};
    }
    constexpr std::size_t width = 16;
    Algorithm algorithm{};
    if (word.size() != algorithm.size() * width) return {};
    for (std::uint64_t& part : algorithm) {
        const char* end = word.data() + width;
        const auto read = std::from_chars(word.data(), end, part, 16);
        if (read.ec != std::errc() || read.ptr != end) return {};
        word.remove_prefix(width);
    }
    return {.algorithm = algorithm};
}

}  // namespace gptrain::cuda
