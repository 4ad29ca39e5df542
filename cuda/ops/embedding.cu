#include "cuda/ops/embedding.h"

#include "cuda/device/dropout_mask.cuh"
#include "cuda/device/pieces.cuh"
#include "cuda/device/unrolled.cuh"
#include "cuda/norm/norm.h"
#include "cuda/ops/row_sums.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

template <class T>
struct LookUpArgs {
    const std::int32_t* ids;
    const T* weight;
    std::int64_t vocab_begin;
    std::int64_t table_rows;
    T* x;
    int tokens;
    int hidden;
    float scale;
};

template <class T>
__device__ inline Vec16<T> scaled(const Vec16<T>& piece, float scale) {
    float x[piece_width<T>];
    widen(piece, x);
    for (float& value : x)
        value = value * scale;
    return narrow_piece<T>(x);
}

template <class T, bool aligned>
__global__ void __launch_bounds__(256) look_up(LookUpArgs<T> args) {
    const int feature = thread_piece<T>();
    if (feature >= args.hidden) return;
    Vec16<T> pieces[rows_per_block] = {};
    for (int i = 0; i < rows_per_block; ++i) {
        const std::int64_t row = args.ids[block_row(i, args.tokens)] - args.vocab_begin;
        if (row < 0 || row >= args.table_rows) continue;
        pieces[i] = load_piece<aligned>(args.weight + row * args.hidden, feature, args.hidden);
    }
    for (int i = 0; i < rows_per_block; ++i) {
        if (!is_block_row(i, args.tokens)) continue;
        T* to = args.x + block_row(i, args.tokens) * args.hidden;
        store_piece<aligned>(to, feature, args.hidden, scaled<T>(pieces[i], args.scale));
    }
}

/// x = dropout(x + weight[positions]), in place.
template <class T>
struct PositionArgs {
    T* x;
    const std::int32_t* positions;
    const T* weight;  ///< null: only dropout
    DropoutParams dropout;
    int tokens;
    int hidden;
    int seq_length;
};

template <class T, bool aligned>
__global__ void __launch_bounds__(256) add_positions(PositionArgs<T> args) {
    const int feature = thread_piece<T>();
    if (feature >= args.hidden) return;
    const FeatureDropout dropout(args.dropout);
    Vec16<T> pieces[rows_per_block];
    Vec16<T> added[rows_per_block] = {};
    for (int i = 0; i < rows_per_block; ++i) {
        const std::int64_t token = block_row(i, args.tokens);
        pieces[i] = load_piece<aligned>(args.x + token * args.hidden, feature, args.hidden);
        if (args.weight == nullptr) continue;
        const T* row = args.weight + std::int64_t{args.positions[token]} * args.hidden;
        added[i] = load_piece<aligned>(row, feature, args.hidden);
    }
    unrolled<rows_per_block>([&](int i) {
        if (!is_block_row(i, args.tokens)) return;
        const auto token = static_cast<int>(block_row(i, args.tokens));
        float x[piece_width<T>];
        widen(pieces[i], x);
        if (args.weight != nullptr) {
            for (int j = 0; j < piece_width<T>; ++j)
                x[j] = x[j] + widen(added[i][j]);
        }
        dropout.drop(dropout.row(token, args.seq_length), feature, x);
        store_piece<aligned>(args.x + std::int64_t{token} * args.hidden, feature, args.hidden,
                             narrow_piece<T>(x));
    });
}

template <class T>
void launch_positions(const PositionArgs<T>& args, const OpContext& context) {
    const PieceGrid grid = piece_grid(args.tokens, args.hidden, piece_width<T>);
    const bool whole = is_aligned(args.x, args.hidden, args.hidden) &&
                       is_aligned(args.weight, args.hidden, args.hidden);
    launch(context.stream,
           {.blocks = grid.blocks, .threads = grid.threads, .blocks_y = grid.columns},
           whole ? add_positions<T, true> : add_positions<T, false>, args);
}

}  // namespace

void run(const EmbeddingForward& args, const OpContext& context) {
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const LookUpArgs<T> look = {.ids = args.ids.as<std::int32_t>(),
                                    .weight = args.weight.as<T>(),
                                    .vocab_begin = args.vocab_begin,
                                    .table_rows = args.weight.size(0),
                                    .x = args.x.as<T>(),
                                    .tokens = static_cast<int>(args.x.size(0)),
                                    .hidden = static_cast<int>(args.x.size(1)),
                                    .scale = args.scale};
        const PieceGrid grid = piece_grid(look.tokens, look.hidden, piece_width<T>);
        const bool whole = is_aligned(look.x, look.hidden, look.hidden) &&
                           is_aligned(look.weight, look.hidden, look.hidden);
        launch(context.stream,
               {.blocks = grid.blocks, .threads = grid.threads, .blocks_y = grid.columns},
               whole ? look_up<T, true> : look_up<T, false>, look);
    });
}

void run(const EmbeddingBackward& args, const OpContext& context) {
    add_rows({.rows = args.ids,
              .begin = args.vocab_begin,
              .x = args.dx,
              .table = args.dweight,
              .scale = args.scale},
             context);
}

void run(const PositionForward& args, const OpContext& context) {
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        launch_positions<T>({.x = args.x.as<T>(),
                             .positions = args.positions.as<std::int32_t>(),
                             .weight = pointer_or_null<T>(args.weight),
                             .dropout = DropoutParams(args.dropout),
                             .tokens = static_cast<int>(args.x.size(0)),
                             .hidden = static_cast<int>(args.x.size(1)),
                             .seq_length = static_cast<int>(args.seq_length)},
                            context);
    });
}

void run(const PositionBackward& args, const OpContext& context) {
    if (args.dropout.probability > 0) {
        run(
            ApplyDropout{
                .x = args.dx, .dropout = args.dropout, .y = args.dx, .seq_length = args.seq_length},
            context);
    }
    if (args.dweight.empty()) return;
    add_rows({.rows = args.positions, .begin = 0, .x = args.dx, .table = args.dweight}, context);
}

}  // namespace gptrain::cuda
