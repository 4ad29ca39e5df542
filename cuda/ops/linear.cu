#include "cuda/ops/linear.h"

#include <algorithm>

#include "cuda/device/activations.cuh"
#include "cuda/device/device.cuh"
#include "cuda/device/partial_sums.h"
#include "cuda/gemm/plain_rows.h"
#include "cuda/gemm/sm90/gemm.h"
#include "cuda/ops/activation.h"
#include "cuda/ops/linear_bias.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;

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

/// True if every row is aligned to four elements.
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

template <class T>
void apply_epilogue(const GemmPart& part, const Stream& stream) {
    const Gemm& gemm = part.gemm;
    launch_epilogue<T>({.sums = reinterpret_cast<const float*>(part.sums.data),
                        .sums_stride = part.sums.row_stride,
                        .to = reinterpret_cast<T*>(gemm.c.data),
                        .to_stride = gemm.c.row_stride,
                        .bias = reinterpret_cast<const T*>(gemm.bias),
                        .gelu_input = reinterpret_cast<const T*>(gemm.gelu_input.data),
                        .gelu_stride = gemm.gelu_input.row_stride,
                        .rows = gemm.c.rows,
                        .cols = gemm.c.cols,
                        .accumulate = gemm.accumulate},
                       stream);
}

/// A matrix with contiguous rows.
Tensor tensor_of(const Matrix& matrix) {
    return Tensor(matrix.data, matrix.dtype, {matrix.rows, matrix.row_stride})
        .slice(1, 0, matrix.cols);
}

Matrix matrix_of(const Tensor& tensor) {
    return tensor.empty() ? Matrix() : Matrix(tensor);
}

Tensor vector_of(float* values, std::int64_t count) {
    return Tensor(reinterpret_cast<std::byte*>(values), DType::f32, {count});
}

void run_swiglu(const Gemm& gemm, const OpContext& context) {
    constexpr Activation swiglu = Activation::swiglu;
    const Tensor c = tensor_of(gemm.c);
    if (gemm.swiglu.data != nullptr)
        return run(ActivationForward{.activation = swiglu, .u = c, .y = tensor_of(gemm.swiglu)},
                   context);
    run(ActivationBackward{.activation = swiglu,
                           .u = tensor_of(gemm.swiglu_input),
                           .dy = c,
                           .du = tensor_of(gemm.swiglu_grad)},
        context);
}

void run_part(const GemmPart& part, const OpContext& context) {
    const Gemm& gemm = part.gemm;
    switch (part.kind) {
        case GemmPart::Kind::epilogue:
            return with_compute_type(gemm.c.dtype, [&](auto type) {
                apply_epilogue<decltype(type)>(part, context.stream);
            });
        case GemmPart::Kind::sm90: return sm90::multiply(gemm, part.sm90_parts, context);
        case GemmPart::Kind::gelu:
            return run(ActivationForward{.u = tensor_of(gemm.c), .y = tensor_of(gemm.gelu)},
                       context);
        case GemmPart::Kind::swiglu: return run_swiglu(gemm, context);
        case GemmPart::Kind::row_sums:
            context.scratch.reset();
            return run(BiasGrad{.dy = tensor_of(gemm.a.transposed()),
                                .dbias = vector_of(gemm.a_totals, gemm.a.rows)},
                       context);
        case GemmPart::Kind::add_sums:
            return add_partial_sums({.data = gemm.a_sums,
                                     .count = 1,
                                     .columns = gemm.a.rows,
                                     .totals = {gemm.a_totals, nullptr}},
                                    context.stream);
        case GemmPart::Kind::plain_rows: return multiply_plain_rows(gemm, context.stream);
        case GemmPart::Kind::library: break;
    }
    fail(ExitCode::bug, "this part of a plan is the library's");
}

}  // namespace

void run(const LinearForward& args, Gemms& gemms, const OpContext& context) {
    // The library would want the bias in fp32 too.
    const bool separate_bias = !args.bias.empty() && args.bias.dtype() != args.y.dtype();
    gemms.run({.a = matrix_by_rows(args.x, args.x8),
               .b = matrix_by_rows(args.weight, args.weight8).transposed(),
               .c = Matrix(args.y),
               .bias = separate_bias ? nullptr : args.bias.data(),
               .gelu = matrix_of(args.gelu),
               .swiglu = matrix_of(args.swiglu),
               .accumulate = args.accumulate,
               .fast_accumulation = !args.x8.empty() && !args.x8.in_blocks()},
              run_part, context);
    if (separate_bias) run(AddBias{.y = args.y, .bias = args.bias}, context);
}

void run(const LinearInputGrad& args, Gemms& gemms, const OpContext& context) {
    gemms.run({.a = matrix_by_rows(args.dy, args.dy8),
               .b = matrix_by_columns(args.weight, args.weight8),
               .c = Matrix(args.dx),
               .gelu_input = matrix_of(args.gelu_input),
               .swiglu_input = matrix_of(args.swiglu_input),
               .swiglu_grad = matrix_of(args.du),
               .accumulate = args.accumulate},
              run_part, context);
}

void run(const LinearWeightGrad& args, Gemms& gemms, const OpContext& context) {
    Gemm gemm = {.a = matrix_by_columns(args.dy, args.dy8).transposed(),
                 .b = matrix_by_columns(args.x, args.x8),
                 .c = Matrix(args.dweight),
                 .accumulate = args.accumulate};
    if (!args.dbias.empty()) {
        check_bias(args.dy, args.dbias);
        gemm.a_sums = context.scratch.take<float>(args.dbias.elements());
        gemm.a_totals = args.dbias.as<float>();
    }
    gemms.run(gemm, run_part, context);
}

}  // namespace gptrain::cuda
