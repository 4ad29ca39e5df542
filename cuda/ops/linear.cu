#include "cuda/ops/linear.h"

#include <algorithm>

#include "cuda/device/device.cuh"
#include "cuda/device/partial_sums.h"
#include "cuda/ops/activation.h"
#include "cuda/ops/gelu.cuh"
#include "cuda/ops/linear_bias.h"
#include "cuda/ops/scratch_sizes.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;

/// A group of rows whose fp32 sums are buffered is a multiple of the first of these that it
/// reaches, so that GEMM tiles are full, or at least FP8 is possible.
constexpr std::int64_t row_multiples[] = {256, 16};

/// to = round((sums + bias) gelu'(gelu_input)), or to = round(to + sums) if it accumulates; bias
/// and gelu_input may be null.
template <class T>
struct EpilogueArgs {
    const float* sums;
    std::int64_t sums_stride;
    T* to;
    std::int64_t to_stride;
    const T* bias;
    const T* gelu_input;
    std::int64_t gelu_stride;
    std::int64_t rows;
    std::int64_t cols;
    bool accumulate;
};

/// A thread handles `width` columns of every gridDim.y-th row.
template <class T, int width>
__global__ void __launch_bounds__(block_size) apply_epilogue_kernel(EpilogueArgs<T> args) {
    const std::int64_t col = (std::int64_t{block_index().x} * block_size + thread_index()) * width;
    if (col >= args.cols) return;
    Vec<T, width> bias{};
    if (args.bias != nullptr) bias = load(reinterpret_cast<const Vec<T, width>*>(args.bias + col));
    for (std::int64_t row = block_index().y; row < args.rows; row += grid_blocks().y) {
        const auto sums = load(
            reinterpret_cast<const Vec<float, width>*>(args.sums + row * args.sums_stride + col));
        Vec<T, width> u{};
        if (args.gelu_input != nullptr) {
            u = load(reinterpret_cast<const Vec<T, width>*>(args.gelu_input +
                                                            row * args.gelu_stride + col));
        }
        auto* to = reinterpret_cast<Vec<T, width>*>(args.to + row * args.to_stride + col);
        Vec<T, width> result{};
        if (args.accumulate) result = load(to);
        for (int i = 0; i < width; ++i) {
            float x = sums[i];
            if (args.bias != nullptr) x = x + widen(bias[i]);
            if (args.gelu_input != nullptr) x = x * gelu(widen(u[i])).slope;
            if (args.accumulate) x = x + widen(result[i]);
            result[i] = narrow<T>(x);
        }
        store(to, result);
    }
}

/// Whether every row is aligned to four elements.
template <class T>
bool aligned_to_four(const T* data, std::int64_t stride) {
    return reinterpret_cast<std::uintptr_t>(data) % (4 * sizeof(T)) == 0 && stride % 4 == 0;
}

template <class T>
void launch_epilogue(const EpilogueArgs<T>& args, const Stream& stream) {
    const bool fours = args.cols % 4 == 0 && aligned_to_four(args.sums, args.sums_stride) &&
                       aligned_to_four(args.to, args.to_stride) && aligned_to_four(args.bias, 0) &&
                       aligned_to_four(args.gelu_input, args.gelu_stride);
    const int width = fours ? 4 : 1;
    launch(stream,
           {.blocks = div_ceil(args.cols, std::int64_t{block_size} * width),
            .threads = block_size,
            .blocks_y = std::min<std::int64_t>(args.rows, 65535)},
           fours ? apply_epilogue_kernel<T, 4> : apply_epilogue_kernel<T, 1>, args);
}

/// Rows of c whose fp32 sums are buffered at a time.
std::int64_t buffered_rows(std::int64_t cols) {
    const std::int64_t rows = linear_sums_bytes / (4 * cols);
    for (const std::int64_t multiple : row_multiples) {
        if (rows >= multiple) return rows / multiple * multiple;
    }
    return std::max<std::int64_t>(rows, 1);
}

Matrix row_range(const Matrix& matrix, std::int64_t begin, std::int64_t count) {
    return matrix.block(begin, count, 0, matrix.cols);
}

/// Whether the GEMM is divided where this size of it ceases to be a multiple of fast_multiple.
bool is_divided(const Gemm& gemm, std::int64_t size) {
    return size_of(gemm.a.dtype) == 2 && size > fast_multiple && size % fast_multiple != 0;
}

/// Calls work(begin, count) for this size of the GEMM, or for each of its two parts, with the same
/// scratch memory.
void in_parts(const Gemm& gemm, std::int64_t size, const OpContext& context, const auto& work) {
    const std::int64_t rest = is_divided(gemm, size) ? size % fast_multiple : 0;
    const Scratch unused = context.scratch;
    work(std::int64_t{0}, size - rest);
    context.scratch = unused;
    if (rest == 0) return;
    work(size - rest, rest);
    context.scratch = unused;
}

/// Applies the epilogue to the rows with these sums.
template <class T>
void apply_epilogue(const Gemm& gemm, const Matrix& sums, std::int64_t begin,
                    const Stream& stream) {
    const Matrix to = row_range(gemm.c, begin, sums.rows);
    EpilogueArgs<T> args = {.sums = reinterpret_cast<const float*>(sums.data),
                            .sums_stride = sums.row_stride,
                            .to = reinterpret_cast<T*>(to.data),
                            .to_stride = to.row_stride,
                            .bias = reinterpret_cast<const T*>(gemm.bias),
                            .gelu_input = nullptr,
                            .gelu_stride = 0,
                            .rows = to.rows,
                            .cols = to.cols,
                            .accumulate = gemm.accumulate};
    if (gemm.gelu_input.data != nullptr) {
        const Matrix u = row_range(gemm.gelu_input, begin, sums.rows);
        args.gelu_input = reinterpret_cast<const T*>(u.data);
        args.gelu_stride = u.row_stride;
    }
    launch_epilogue(args, stream);
}

/// c = a b, in parts of the summed dim. c is fp32.
void multiply_sums(const Gemm& gemm, Gemms& gemms, const OpContext& context) {
    in_parts(gemm, gemm.a.cols, context, [&](std::int64_t begin, std::int64_t count) {
        Gemm part = gemm;
        part.a = gemm.a.block(0, gemm.a.rows, begin, count);
        part.b = gemm.b.block(begin, count, 0, gemm.b.cols);
        part.accumulate = begin > 0;
        gemms.multiply(part, context);
    });
}

/// Runs the plain GEMM, then its epilogue as a kernel. The result must be rounded only once, so
/// 16-bit GEMMs keep their sums in fp32, for a few rows at a time that stay in the L2 cache. Memory
/// traffic per element is then that of a fused epilogue: 2 bytes for the result and 2 for
/// gelu_input. Buffering the sums of all rows would write and read 8 bytes more; storing 16-bit
/// results before the epilogue would cost 4 bytes more and round twice. If c is fp32, it holds the
/// sums itself.
void multiply_then_epilogue(const Gemm& gemm, Gemms& gemms, const OpContext& context) {
    const bool in_place = gemm.c.dtype == DType::f32;
    const std::int64_t step = in_place ? gemm.c.rows : buffered_rows(gemm.c.cols);
    Matrix sums = gemm.c;
    if (!in_place) {
        sums.dtype = DType::f32;
        sums.row_stride = gemm.c.cols;
        sums.data = context.scratch.take_bytes(std::min(step, gemm.c.rows) * gemm.c.cols * 4);
    }
    for (std::int64_t begin = 0; begin < gemm.c.rows; begin += step) {
        sums.rows = std::min(step, gemm.c.rows - begin);
        multiply_sums({.a = row_range(gemm.a, begin, sums.rows),
                       .b = gemm.b,
                       .c = sums,
                       .fast_accumulation = gemm.fast_accumulation},
                      gemms, context);
        with_compute_type(gemm.c.dtype, [&](auto type) {
            apply_epilogue<decltype(type)>(gemm, sums, begin, context.stream);
        });
    }
}

/// With any epilogue but a_sums and gelu.
void multiply_columns(const Gemm& gemm, Gemms& gemms, const OpContext& context) {
    const bool adds_to_16_bits = gemm.accumulate && gemm.c.dtype != DType::f32;
    if (!gemm.has_epilogue() && !adds_to_16_bits && !is_divided(gemm, gemm.a.cols))
        return gemms.multiply(gemm, context);
    gemms.multiply(
        gemm, [&] { multiply_then_epilogue(gemm, gemms, context); }, context);
}

/// The same, in parts of the columns.
void multiply(const Gemm& gemm, Gemms& gemms, const OpContext& context) {
    in_parts(gemm, gemm.c.cols, context, [&](std::int64_t begin, std::int64_t count) {
        Gemm part = gemm;
        part.b = gemm.b.block(0, gemm.b.rows, begin, count);
        part.c = gemm.c.block(0, gemm.c.rows, begin, count);
        if (gemm.gelu_input.data != nullptr)
            part.gelu_input = gemm.gelu_input.block(0, gemm.c.rows, begin, count);
        if (gemm.bias != nullptr) part.bias = gemm.bias + begin * size_of(gemm.c.dtype);
        multiply_columns(part, gemms, context);
    });
}

/// Without an epilogue, in parts of the rows.
void multiply_rows(const Gemm& gemm, Gemms& gemms, const OpContext& context) {
    in_parts(gemm, gemm.c.rows, context, [&](std::int64_t begin, std::int64_t count) {
        Gemm part = gemm;
        part.a = row_range(gemm.a, begin, count);
        part.c = row_range(gemm.c, begin, count);
        gemms.multiply(part, context);
    });
}

}  // namespace

void run(const LinearForward& args, Gemms& gemms, const OpContext& context) {
    const Gemm gemm = {.a = matrix_by_rows(args.x, args.x8),
                       .b = matrix_by_rows(args.weight, args.weight8).transposed(),
                       .c = Matrix(args.y),
                       .bias = args.bias.data(),
                       .accumulate = args.accumulate,
                       .fast_accumulation = !args.x8.empty()};
    if (args.gelu.empty()) return multiply(gemm, gemms, context);
    const auto multiply_then_gelu = [&] {
        multiply(gemm, gemms, context);
        run(ActivationForward{.u = args.y, .y = args.gelu}, context);
    };
    if (context.deterministic) return multiply_then_gelu();
    Gemm with_gelu = gemm;
    with_gelu.gelu = Matrix(args.gelu);
    gemms.multiply(with_gelu, multiply_then_gelu, context);
}

void run(const LinearInputGrad& args, Gemms& gemms, const OpContext& context) {
    multiply({.a = matrix_by_rows(args.dy, args.dy8),
              .b = matrix_by_columns(args.weight, args.weight8),
              .c = Matrix(args.dx),
              .gelu_input = args.gelu_input.empty() ? Matrix() : Matrix(args.gelu_input),
              .accumulate = args.accumulate},
             gemms, context);
}

void run(const LinearWeightGrad& args, Gemms& gemms, const OpContext& context) {
    const Gemm gemm = {.a = matrix_by_columns(args.dy, args.dy8).transposed(),
                       .b = matrix_by_columns(args.x, args.x8),
                       .c = Matrix(args.dweight),
                       .accumulate = args.accumulate};
    if (args.dbias.empty()) return multiply_rows(gemm, gemms, context);
    check_bias(args.dy, args.dbias);
    const auto multiply_then_sum = [&] {
        multiply_rows(gemm, gemms, context);
        context.scratch.reset();
        run(BiasGrad{.dy = args.dy, .dbias = args.dbias}, context);
    };
    Gemm with_sums = gemm;
    with_sums.a_sums = context.scratch.take<float>(args.dbias.elements());
    if (!gemms.multiply(with_sums, multiply_then_sum, context)) return;
    add_partial_sums({.data = with_sums.a_sums,
                      .count = 1,
                      .columns = args.dbias.elements(),
                      .totals = {args.dbias.as<float>(), nullptr}},
                     context.stream);
}

}  // namespace gptrain::cuda
