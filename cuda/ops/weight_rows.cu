// Backward through the weights of rows, and through gates: a warp handles a row.
#include "cuda/device/activations.cuh"
#include "cuda/device/pieces.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/ops/expert_rows.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int row_block = 256;
constexpr int row_block_warps = row_block / warp_threads;

/// A warp sets `to` = factor x `from` for a row and returns <with, from>; `to` may be `from`.
template <class T, bool aligned>
__device__ inline float scale_row(T* to, const T* from, const T* with, float factor, int size) {
    float sum = 0;
    for (int at = lane_index() * piece_width<T>; at < size; at += warp_threads * piece_width<T>) {
        float x[piece_width<T>];
        float y[piece_width<T>];
        widen(load_piece<aligned>(from, at, size), x);
        widen(load_piece<aligned>(with, at, size), y);
        for (int k = 0; k < piece_width<T>; ++k) {
            sum = fma(x[k], y[k], sum);
            x[k] = factor * x[k];
        }
        store_piece<aligned>(to, at, size, narrow_piece<T>(x));
    }
    return warp_sum(sum);
}

template <class T>
struct WeightArgs {
    const T* a;
    T* da;
    const std::int32_t* places;
    const float* weights;
    float* dweights;
    std::int64_t slots;
    int width;
    // With a bias only:
    const T* bias;
    const T* dy;
    const std::int32_t* offsets;
    int experts;
    int per_token;
    int hidden;
};

/// The expert of a row: the first whose rows end behind it.
__device__ inline int expert_of(const std::int32_t* offsets, int experts, std::int64_t row) {
    int first = 0;
    for (int last = experts - 1; first < last;) {
        const int middle = (first + last) / 2;
        if (load(offsets + middle + 1) > row) {
            last = middle;
        } else {
            first = middle + 1;
        }
    }
    return first;
}

/// <bias, dy> of a slot, computed by a warp.
template <class T, bool aligned>
__device__ inline float bias_product(const WeightArgs<T>& args, std::int64_t slot,
                                     std::int64_t place) {
    const std::int64_t hidden = args.hidden;
    const T* bias = args.bias + expert_of(args.offsets, args.experts, place) * hidden;
    const T* dy = args.dy + slot / args.per_token * hidden;
    float sum = 0;
    for (int at = lane_index() * piece_width<T>; at < args.hidden;
         at += warp_threads * piece_width<T>) {
        float x[piece_width<T>];
        float y[piece_width<T>];
        widen(load_piece<aligned>(bias, at, args.hidden), x);
        widen(load_piece<aligned>(dy, at, args.hidden), y);
        for (int k = 0; k < piece_width<T>; ++k)
            sum = fma(x[k], y[k], sum);
    }
    return warp_sum(sum);
}

template <class T, bool aligned, bool with_bias>
__global__ void __launch_bounds__(row_block) weight_kernel(WeightArgs<T> args) {
    const std::int64_t slot = std::int64_t{block_index().x} * row_block_warps + warp_index();
    if (slot >= args.slots) return;
    const std::int64_t place = load(args.places + slot);
    float dweight = 0;
    if (place >= 0) {
        T* da = args.da + place * args.width;
        dweight = scale_row<T, aligned>(da, da, args.a + place * args.width,
                                        load(args.weights + slot), args.width);
        if constexpr (with_bias) dweight = dweight + bias_product<T, aligned>(args, slot, place);
    }
    if (lane_index() == 0) args.dweights[slot] = dweight;
}

template <class T>
struct GateBackwardArgs {
    const T* x;
    const float* logits;
    const T* dy;
    T* dx;
    float* dlogits;
    std::int64_t tokens;
    int hidden;
};

template <class T, bool aligned>
__global__ void __launch_bounds__(row_block) gate_backward_kernel(GateBackwardArgs<T> args) {
    const std::int64_t token = std::int64_t{block_index().x} * row_block_warps + warp_index();
    if (token >= args.tokens) return;
    const Logistic gate = logistic_or_nan(load(args.logits + token));
    const std::int64_t row = token * args.hidden;
    const float product =
        scale_row<T, aligned>(args.dx + row, args.dy + row, args.x + row, gate.value, args.hidden);
    if (lane_index() == 0) args.dlogits[token] = gate.value * gate.tail * product;
}

LaunchShape warp_per_row(std::int64_t rows) {
    return {.blocks = div_ceil(rows, row_block_warps), .threads = row_block};
}

}  // namespace

void run(const WeightRows& args, const OpContext& context) {
    const std::int64_t width = args.a.size(1);
    GPTRAIN_CHECK(args.a.shape() == args.da.shape() && args.a.contiguous() &&
                      args.da.contiguous() && width <= INT32_MAX && args.places.contiguous() &&
                      args.places.elements() == args.weights.elements() &&
                      args.places.elements() == args.dweights.elements(),
                  "weights ", args.weights.shape().to_text(), " of rows ",
                  args.a.shape().to_text());
    const auto& [bias, dy, offsets] = args.added;
    const bool with_bias = !bias.empty();
    const std::int64_t hidden = with_bias ? bias.size(1) : 0;
    GPTRAIN_CHECK(!with_bias || (bias.contiguous() && dy.contiguous() && dy.size(1) == hidden &&
                                 dy.size(0) == args.places.size(0) && hidden <= INT32_MAX &&
                                 offsets.elements() == bias.size(0) + 1),
                  "biases ", bias.shape().to_text(), " with gradients ", dy.shape().to_text());
    with_compute_type(args.a.dtype(), [&](auto type) {
        using T = decltype(type);
        const WeightArgs<T> weight = {.a = args.a.as<T>(),
                                      .da = args.da.as<T>(),
                                      .places = args.places.as<std::int32_t>(),
                                      .weights = args.weights.as<float>(),
                                      .dweights = args.dweights.as<float>(),
                                      .slots = args.places.elements(),
                                      .width = static_cast<int>(width),
                                      .bias = pointer_or_null<T>(bias),
                                      .dy = pointer_or_null<T>(dy),
                                      .offsets = pointer_or_null<std::int32_t>(offsets),
                                      .experts = with_bias ? static_cast<int>(bias.size(0)) : 0,
                                      .per_token = static_cast<int>(args.places.size(1)),
                                      .hidden = static_cast<int>(hidden)};
        const bool aligned =
            is_aligned(weight.a, width, width) && is_aligned(weight.da, width, width) &&
            is_aligned(weight.bias, hidden, hidden) && is_aligned(weight.dy, hidden, hidden);
        const auto kernel =
            with_bias ? aligned ? weight_kernel<T, true, true> : weight_kernel<T, false, true>
            : aligned ? weight_kernel<T, true, false>
                      : weight_kernel<T, false, false>;
        launch(context.stream, warp_per_row(weight.slots), kernel, weight);
    });
}

void run(const GateRowsBackward& args, const OpContext& context) {
    const std::int64_t hidden = args.x.size(1);
    GPTRAIN_CHECK(args.x.shape() == args.dy.shape() && args.x.shape() == args.dx.shape() &&
                      args.x.contiguous() && args.dy.contiguous() && args.dx.contiguous() &&
                      args.logits.elements() == args.x.size(0) &&
                      args.dlogits.elements() == args.x.size(0) && hidden <= INT32_MAX,
                  "gates ", args.logits.shape().to_text(), " of ", args.x.shape().to_text());
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const GateBackwardArgs<T> gate = {.x = args.x.as<T>(),
                                          .logits = args.logits.as<float>(),
                                          .dy = args.dy.as<T>(),
                                          .dx = args.dx.as<T>(),
                                          .dlogits = args.dlogits.as<float>(),
                                          .tokens = args.x.size(0),
                                          .hidden = static_cast<int>(hidden)};
        const bool aligned = is_aligned(gate.x, hidden, hidden) &&
                             is_aligned(gate.dy, hidden, hidden) &&
                             is_aligned(gate.dx, hidden, hidden);
        launch(context.stream, warp_per_row(gate.tokens),
               aligned ? gate_backward_kernel<T, true> : gate_backward_kernel<T, false>, gate);
    });
}

}  // namespace gptrain::cuda
