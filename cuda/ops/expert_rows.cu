#include "cuda/ops/expert_rows.h"

#include "cuda/device/activations.cuh"
#include "cuda/device/pieces.cuh"
#include "cuda/device/unrolled.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

/// Launches over all pieces of some rows, rows_per_block rows in a block.
template <class Kernel, class Args>
void launch_pieces(const PieceGrid& grid, Kernel kernel, const Args& args,
                   const OpContext& context) {
    launch(context.stream,
           {.blocks = grid.blocks, .threads = grid.threads, .blocks_y = grid.columns}, kernel,
           args);
}

// ---- gather -------------------------------------------------------------------------------------

template <class T>
struct GatherArgs {
    const T* x;
    std::int64_t stride;
    const std::int32_t* slots;
    const std::int32_t* count;  ///< of the rows; null: `all`
    int all;
    const float* weights;  ///< may be null
    T* rows;
    int per_token;
    int hidden;
};

/// `with_gaps`: all rows, of which some have no slot and become 0.
template <class T, bool aligned, bool with_gaps>
__global__ void __launch_bounds__(256) gather_kernel(GatherArgs<T> args) {
    const int count = with_gaps ? args.all : load(args.count);
    const int at = thread_piece<T>();
    if (at >= args.hidden || !is_block_row(0, count)) return;
    Vec16<T> pieces[rows_per_block] = {};
    float weights[rows_per_block] = {};
    for (int i = 0; i < rows_per_block; ++i) {
        const int slot = args.slots[block_row(i, count)];
        if (with_gaps && slot < 0) continue;
        const T* row = args.x + slot / args.per_token * args.stride;
        pieces[i] = load_piece<aligned>(row, at, args.hidden);
        if (args.weights != nullptr) weights[i] = args.weights[slot];
    }
    for (int i = 0; i < rows_per_block; ++i) {
        if (!is_block_row(i, count)) continue;
        if (args.weights != nullptr) {
            float x[piece_width<T>];
            widen(pieces[i], x);
            for (float& value : x)
                value = weights[i] * value;
            pieces[i] = narrow_piece<T>(x);
        }
        store_piece<aligned>(args.rows + block_row(i, count) * args.hidden, at, args.hidden,
                             pieces[i]);
    }
}

// ---- combine ------------------------------------------------------------------------------------

template <class T>
struct CombineArgs {
    const T* rows;
    const std::int32_t* places;
    const float* weights;  ///< may be null
    T* y;
    std::int64_t stride;
    int per_token;
    int hidden;
    bool accumulate;
};

/// A block handles a token.
template <class T, bool aligned>
__global__ void __launch_bounds__(256) combine_kernel(CombineArgs<T> args) {
    constexpr int unroll = 4;
    const int at = thread_piece<T>();
    if (at >= args.hidden) return;
    const std::int64_t first = block_index().x * std::int64_t{args.per_token};
    T* y = args.y + block_index().x * args.stride;
    float sum[piece_width<T>] = {};
    for (int begin = 0; begin < args.per_token; begin += unroll) {
        Vec16<T> pieces[unroll] = {};
        float weights[unroll] = {};
        bool exists[unroll] = {};
        unrolled<unroll>([&](int i) {
            if (begin + i >= args.per_token) return;
            const std::int64_t slot = first + begin + i;
            const std::int64_t place = args.places[slot];
            if (place < 0) return;
            exists[i] = true;
            pieces[i] = load_piece<aligned>(args.rows + place * args.hidden, at, args.hidden);
            weights[i] = args.weights == nullptr ? 1.0f : args.weights[slot];
        });
        unrolled<unroll>([&](int i) {
            if (!exists[i]) return;
            float x[piece_width<T>];
            widen(pieces[i], x);
            for (int k = 0; k < piece_width<T>; ++k)
                sum[k] = fma(weights[i], x[k], sum[k]);
        });
    }
    if (args.accumulate) {
        float x[piece_width<T>];
        widen(load_piece<aligned>(y, at, args.hidden), x);
        for (int k = 0; k < piece_width<T>; ++k)
            sum[k] = sum[k] + x[k];
    }
    store_piece<aligned>(y, at, args.hidden, narrow_piece<T>(sum));
}

// ---- gates --------------------------------------------------------------------------------------

template <class T>
struct GateArgs {
    const T* x;
    const float* logits;
    T* y;
    int tokens;
    int hidden;
};

template <class T, bool aligned>
__global__ void __launch_bounds__(256) gate_kernel(GateArgs<T> args) {
    const int at = thread_piece<T>();
    if (at >= args.hidden) return;
    Vec16<T> pieces[rows_per_block];
    float gates[rows_per_block];
    for (int i = 0; i < rows_per_block; ++i) {
        const std::int64_t row = block_row(i, args.tokens);
        pieces[i] = load_piece<aligned>(args.x + row * args.hidden, at, args.hidden);
        gates[i] = logistic_or_nan(load(args.logits + row)).value;
    }
    for (int i = 0; i < rows_per_block; ++i) {
        if (!is_block_row(i, args.tokens)) continue;
        float x[piece_width<T>];
        widen(pieces[i], x);
        for (float& value : x)
            value = gates[i] * value;
        store_piece<aligned>(args.y + block_row(i, args.tokens) * args.hidden, at, args.hidden,
                             narrow_piece<T>(x));
    }
}

}  // namespace

void run(const GatherRows& args, const OpContext& context) {
    const std::int64_t hidden = args.rows.size(1);
    GPTRAIN_CHECK(args.rows.contiguous() && args.x.size(1) == hidden && hidden <= INT32_MAX &&
                      args.slots.elements() >= args.rows.size(0) && args.per_token >= 1 &&
                      args.rows.size(0) <= INT32_MAX,
                  "rows ", args.rows.shape().to_text(), " of ", args.x.shape().to_text());
    const bool with_gaps = args.offsets.empty();
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const Rows<T> x(args.x);
        const GatherArgs<T> gather = {
            .x = x.data,
            .stride = x.stride,
            .slots = args.slots.as<std::int32_t>(),
            .count =
                with_gaps ? nullptr : args.offsets.as<std::int32_t>() + args.offsets.elements() - 1,
            .all = static_cast<int>(args.rows.size(0)),
            .weights = pointer_or_null<float>(args.weights),
            .rows = args.rows.as<T>(),
            .per_token = static_cast<int>(args.per_token),
            .hidden = static_cast<int>(hidden)};
        const bool aligned =
            is_aligned(x.data, x.stride, hidden) && is_aligned(gather.rows, hidden, hidden);
        const auto kernel =
            with_gaps ? aligned ? gather_kernel<T, true, true> : gather_kernel<T, false, true>
            : aligned ? gather_kernel<T, true, false>
                      : gather_kernel<T, false, false>;
        launch_pieces(piece_grid(args.rows.size(0), hidden, piece_width<T>), kernel, gather,
                      context);
    });
}

void run(const CombineRows& args, const OpContext& context) {
    const std::int64_t hidden = args.y.size(1);
    GPTRAIN_CHECK(args.places.rank() == 2 && args.places.size(0) == args.y.size(0) &&
                      args.places.contiguous() && args.rows.contiguous() &&
                      args.rows.size(1) == hidden && hidden <= INT32_MAX &&
                      (args.weights.empty() || args.weights.shape() == args.places.shape()),
                  "rows ", args.rows.shape().to_text(), " at ", args.places.shape().to_text(),
                  " of ", args.y.shape().to_text());
    with_compute_type(args.y.dtype(), [&](auto type) {
        using T = decltype(type);
        const Rows<T> y(args.y);
        const CombineArgs<T> combine = {.rows = args.rows.as<T>(),
                                        .places = args.places.as<std::int32_t>(),
                                        .weights = pointer_or_null<float>(args.weights),
                                        .y = y.data,
                                        .stride = y.stride,
                                        .per_token = static_cast<int>(args.places.size(1)),
                                        .hidden = static_cast<int>(hidden),
                                        .accumulate = args.accumulate};
        const bool aligned =
            is_aligned(y.data, y.stride, hidden) && is_aligned(combine.rows, hidden, hidden);
        PieceGrid grid = piece_grid(1, hidden, piece_width<T>);
        grid.blocks = args.y.size(0);
        launch_pieces(grid, aligned ? combine_kernel<T, true> : combine_kernel<T, false>, combine,
                      context);
    });
}

void run(const GateRows& args, const OpContext& context) {
    const std::int64_t hidden = args.x.size(1);
    GPTRAIN_CHECK(args.x.shape() == args.y.shape() && args.x.contiguous() && args.y.contiguous() &&
                      args.logits.elements() == args.x.size(0) && args.x.size(0) <= INT32_MAX &&
                      hidden <= INT32_MAX,
                  "gates ", args.logits.shape().to_text(), " of ", args.x.shape().to_text());
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const GateArgs<T> gate = {.x = args.x.as<T>(),
                                  .logits = args.logits.as<float>(),
                                  .y = args.y.as<T>(),
                                  .tokens = static_cast<int>(args.x.size(0)),
                                  .hidden = static_cast<int>(hidden)};
        const bool aligned =
            is_aligned(gate.x, hidden, hidden) && is_aligned(gate.y, hidden, hidden);
        launch_pieces(piece_grid(gate.tokens, hidden, piece_width<T>),
                      aligned ? gate_kernel<T, true> : gate_kernel<T, false>, gate, context);
    });
}

}  // namespace gptrain::cuda
