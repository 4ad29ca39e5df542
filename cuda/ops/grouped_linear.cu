#include "cuda/ops/grouped_linear.h"

#include <algorithm>

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

/// a and b are [rows, ..], but for the weight [P, E, O, I].
template <Grouped op>
void multiply_groups(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& weight,
                     const Tensor& bias, const Tensor& offsets, bool accumulate,
                     const OpContext& context) {
    const std::int64_t rows = a.size(0);
    const Tensor& x = is_forward(op) ? a : op == Grouped::input_grad ? c : b;
    const Tensor& y = is_forward(op) ? c : a;
    GPTRAIN_CHECK(weight.rank() == 4 && a.contiguous() && b.contiguous() && c.contiguous() &&
                      x.size(0) == rows && y.size(0) == rows && x.size(1) == weight.size(3) &&
                      y.size(1) == weight.size(0) * weight.size(2) &&
                      (bias.empty() ||
                       (bias.contiguous() && bias.elements() * x.size(1) == weight.elements())) &&
                      offsets.elements() == weight.size(1) + 1 && rows <= INT32_MAX / 2 &&
                      y.size(1) <= INT32_MAX / 2 && x.size(1) <= INT32_MAX / 2,
                  "rows ", x.shape().to_text(), " and ", y.shape().to_text(), " of experts ",
                  weight.shape().to_text());
    with_compute_type(a.dtype(), [&](auto type) {
        using T = decltype(type);
        const GroupedArgs<T> args = {.a = a.as<T>(),
                                     .b = b.as<T>(),
                                     .bias = pointer_or_null<T>(bias),
                                     .c = c.data(),
                                     .offsets = offsets.as<std::int32_t>(),
                                     .experts = static_cast<int>(weight.size(1)),
                                     .parts = static_cast<int>(weight.size(0)),
                                     .outputs = static_cast<int>(weight.size(2)),
                                     .inputs = static_cast<int>(weight.size(3)),
                                     .accumulate = accumulate};
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

}  // namespace

void run(const GroupedForward& args, const OpContext& context) {
    const auto multiply = args.bias.empty() ? multiply_groups<Grouped::forward>
                                            : multiply_groups<Grouped::biased_forward>;
    multiply(args.x, args.weight, args.y, args.weight, args.bias, args.offsets, false, context);
}

void run(const GroupedInputGrad& args, const OpContext& context) {
    multiply_groups<Grouped::input_grad>(args.dy, args.weight, args.dx, args.weight, {},
                                         args.offsets, false, context);
}

void run(const GroupedWeightGrad& args, const OpContext& context) {
    multiply_groups<Grouped::weight_grad>(args.dy, args.x, args.dweight, args.dweight, {},
                                          args.offsets, args.accumulate, context);
}

}  // namespace gptrain::cuda
