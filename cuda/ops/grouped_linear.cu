#include "cuda/ops/grouped_linear.h"

#include <algorithm>

#include "cuda/gemm/sm90/grouped.h"
#include "cuda/ops/grouped_mma.cuh"
#include "cuda/ops/grouped_plain.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

/// Upper bound of the number of tiles: each expert may need one more than its rows fill.
template <Grouped op, class T>
std::int64_t most_tiles(const GroupedArgs<T>& args, std::int64_t rows, int tile) {
    const std::int64_t outputs = tiles_for(args.outputs, tile);
    const std::int64_t inputs = tiles_for(args.inputs, tile);
    if (op == Grouped::weight_grad) return outputs * inputs * args.parts * args.experts;
    const std::int64_t down = rows / tile + std::min<std::int64_t>(rows, args.experts);
    return down * (is_forward(op) ? outputs * args.parts : inputs);
}

/// Blocks of a weight gradient have one tile each, because their lengths differ. Other tiles are
/// alike, and most of the upper bound may not exist.
template <Grouped op>
std::int64_t blocks_for(std::int64_t tiles, const OpContext& context) {
    return op == Grouped::weight_grad ? tiles : grid_for(tiles, 1, context.device);
}

/// By a kernel for all devices.
template <Grouped op>
void multiply_groups(const GroupedGemm& gemm, const OpContext& context) {
    const Tensor& a = gemm.a;
    const Tensor& b = gemm.b;
    const Tensor& c = gemm.c;
    const std::int64_t rows = gemm.rows();
    with_compute_type(a.dtype(), [&](auto type) {
        using T = decltype(type);
        const GroupedArgs<T> args = {.a = a.as<T>(),
                                     .b = b.as<T>(),
                                     .bias = pointer_or_null<T>(gemm.bias),
                                     .c = c.data(),
                                     .offsets = gemm.offsets.as<std::int32_t>(),
                                     .experts = static_cast<int>(gemm.experts()),
                                     .parts = static_cast<int>(gemm.parts()),
                                     .outputs = static_cast<int>(gemm.outputs()),
                                     .inputs = static_cast<int>(gemm.inputs()),
                                     .accumulate = gemm.accumulate};
        if constexpr (sizeof(T) == 4) {
            const std::int64_t tiles = most_tiles<op>(args, rows, plain_tile);
            launch(context.stream,
                   {.blocks = blocks_for<op>(tiles, context),
                    .threads = plain_threads,
                    .shared_bytes = sizeof(PlainShared<Product<T, op>>)},
                   grouped_plain_kernel<op>, args);
        } else {
            const std::int64_t tiles = most_tiles<op>(args, rows, mma_tile);
            const auto whole = [&](const Tensor& tensor) {
                return reinterpret_cast<std::uintptr_t>(tensor.data()) % 16 == 0;
            };
            const bool aligned = whole(a) && whole(b) && whole(c) &&
                                 args.outputs % piece_width<T> == 0 &&
                                 args.inputs % piece_width<T> == 0;
            launch(context.stream,
                   {.blocks = blocks_for<op>(tiles, context),
                    .threads = mma_threads,
                    .shared_bytes = sizeof(MmaShared<Product<T, op>>)},
                   aligned ? grouped_mma_kernel<T, op, true> : grouped_mma_kernel<T, op, false>,
                   args);
        }
    });
}

void multiply_anywhere(const GroupedGemm& gemm, const OpContext& context) {
    using enum GroupedKind;
    switch (gemm.kind) {
        case forward:
            return gemm.bias.empty() ? multiply_groups<Grouped::forward>(gemm, context)
                                     : multiply_groups<Grouped::biased_forward>(gemm, context);
        case input_grad: return multiply_groups<Grouped::input_grad>(gemm, context);
        case weight_grad: return multiply_groups<Grouped::weight_grad>(gemm, context);
    }
}

/// a and b are [rows, ..], but for the weight [P, E, O, I].
void check(const GroupedGemm& gemm) {
    using enum GroupedKind;
    const Tensor& x = gemm.kind == forward ? gemm.a : gemm.kind == input_grad ? gemm.c : gemm.b;
    const Tensor& y = gemm.kind == forward ? gemm.c : gemm.a;
    const Tensor& weight = gemm.weight();
    GPTRAIN_CHECK(
        weight.rank() == 4 && gemm.a.contiguous() && gemm.b.contiguous() && gemm.c.contiguous() &&
            x.size(0) == y.size(0) && x.size(1) == weight.size(3) &&
            y.size(1) == weight.size(0) * weight.size(2) &&
            (gemm.bias.empty() ||
             (gemm.bias.contiguous() && gemm.bias.elements() * x.size(1) == weight.elements())) &&
            gemm.offsets.elements() == weight.size(1) + 1 && x.size(0) <= INT32_MAX / 2 &&
            y.size(1) <= INT32_MAX / 2 && x.size(1) <= INT32_MAX / 2,
        "rows ", x.shape().to_text(), " and ", y.shape().to_text(), " of experts ",
        weight.shape().to_text());
}

void multiply(const GroupedGemm& gemm, Gemms& gemms, const OpContext& context) {
    check(gemm);
    gemms.run(gemm, {.anywhere = multiply_anywhere, .sm90 = sm90::multiply}, context);
}

}  // namespace

void run(const GroupedForward& args, Gemms& gemms, const OpContext& context) {
    multiply(GroupedGemm{.kind = GroupedKind::forward,
                         .a = args.x,
                         .b = args.weight,
                         .c = args.y,
                         .offsets = args.offsets,
                         .bias = args.bias,
                         .expected = args.expected},
             gemms, context);
}

void run(const GroupedInputGrad& args, Gemms& gemms, const OpContext& context) {
    multiply(GroupedGemm{.kind = GroupedKind::input_grad,
                         .a = args.dy,
                         .b = args.weight,
                         .c = args.dx,
                         .offsets = args.offsets,
                         .expected = args.expected},
             gemms, context);
}

void run(const GroupedWeightGrad& args, Gemms& gemms, const OpContext& context) {
    multiply(GroupedGemm{.kind = GroupedKind::weight_grad,
                         .a = args.dy,
                         .b = args.x,
                         .c = args.dweight,
                         .offsets = args.offsets,
                         .accumulate = args.accumulate,
                         .expected = args.expected},
             gemms, context);
}

}  // namespace gptrain::cuda
