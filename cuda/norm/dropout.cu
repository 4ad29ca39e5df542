#include "cuda/device/amax.cuh"
#include "cuda/device/dropout_mask.cuh"
#include "cuda/device/pieces.cuh"
#include "cuda/device/unrolled.cuh"
#include "cuda/norm/norm.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

template <class T>
struct DropArgs {
    const T* x;
    T* y;
    float* amax;  ///< amax of y, if requested
    int tokens;
    int hidden;
    int seq_length;
    int feature_begin;
    DropoutParams dropout;
};

template <bool aligned, class T, bool with_amax>
__device__ inline void drop_column(const DropArgs<T>& args, int at, RunningAmax<with_amax>& amax) {
    const FeatureDropout dropout(args.dropout);
    Vec16<T> pieces[rows_per_block];
    for (int i = 0; i < rows_per_block; ++i) {
        const T* row = args.x + block_row(i, args.tokens) * args.hidden;
        pieces[i] = load_piece_once<aligned>(row, at, args.hidden);
    }
    unrolled<rows_per_block>([&](int i) {
        if (!is_block_row(i, args.tokens)) return;
        const auto row = static_cast<int>(block_row(i, args.tokens));
        float values[piece_width<T>];
        widen(pieces[i], values);
        dropout.drop(dropout.row(row, args.seq_length), args.feature_begin + at, values);
        const Vec16<T> y = narrow_piece<T>(values);
        store_piece<aligned>(args.y + std::int64_t{row} * args.hidden, at, args.hidden, y);
        amax.template add<aligned>(y, at, args.hidden);
    });
}

template <class T, bool aligned, bool with_amax>
__global__ void __launch_bounds__(256) drop_kernel(DropArgs<T> args) {
    const int at = thread_piece<T>();
    RunningAmax<with_amax> amax;
    if (at < args.hidden) drop_column<aligned>(args, at, amax);
    amax.merge(shared_memory<WarpAmax>().values, args.amax);
}

template <class T>
void drop(const ApplyDropout& op, const OpContext& context) {
    const std::int64_t hidden = op.x.size(1);
    const DropArgs<T> args = {.x = op.x.as<T>(),
                              .y = op.y.as<T>(),
                              .amax = pointer_or_null<float>(op.amax),
                              .tokens = static_cast<int>(op.x.size(0)),
                              .hidden = static_cast<int>(hidden),
                              .seq_length = static_cast<int>(op.seq_length),
                              .feature_begin = static_cast<int>(op.dropout.feature_begin),
                              .dropout = DropoutParams(op.dropout)};
    const bool aligned = is_aligned(args.x, hidden, hidden) && is_aligned(args.y, hidden, hidden);
    const PieceGrid grid = piece_grid(args.tokens, hidden, piece_width<T>);
    auto* kernel = args.amax == nullptr
                       ? aligned ? drop_kernel<T, true, false> : drop_kernel<T, false, false>
                   : aligned ? drop_kernel<T, true, true>
                             : drop_kernel<T, false, true>;
    launch(context.stream,
           {.blocks = grid.blocks,
            .threads = grid.threads,
            .shared_bytes = sizeof(WarpAmax),
            .blocks_y = grid.columns},
           kernel, args);
}

}  // namespace

void run(const ApplyDropout& args, const OpContext& context) {
    GPTRAIN_CHECK(args.x.rank() == 2 && args.x.size(0) <= INT32_MAX &&
                      args.dropout.feature_begin + args.x.size(1) <= INT32_MAX,
                  "dropout of ", args.x.shape().to_text());
    with_compute_type(args.x.dtype(), [&](auto type) { drop<decltype(type)>(args, context); });
}

}  // namespace gptrain::cuda
