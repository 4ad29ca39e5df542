#include "cuda/device/unrolled.cuh"
#include "cuda/norm/norm.h"
#include "cuda/norm/residual_sum.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

template <class T>
struct AddArgs {
    const T* r;
    const T* y;
    T* r_out;
    int tokens;
    int hidden;
    int seq_length;
    DropoutParams dropout;
};

template <class T, bool aligned>
__global__ void __launch_bounds__(256) residual_add_kernel(AddArgs<T> args) {
    const int at = thread_piece<T>();
    if (at >= args.hidden) return;
    const FeatureDropout dropout(args.dropout);
    Vec16<T> stream[rows_per_block];
    Vec16<T> branch[rows_per_block];
    for (int i = 0; i < rows_per_block; ++i) {
        const std::int64_t begin = block_row(i, args.tokens) * args.hidden;
        stream[i] = load_piece_once<aligned>(args.r + begin, at, args.hidden);
        branch[i] = load_piece_once<aligned>(args.y + begin, at, args.hidden);
    }
    unrolled<rows_per_block>([&](int i) {
        if (!is_block_row(i, args.tokens)) return;
        const auto row = static_cast<int>(block_row(i, args.tokens));
        const auto where = dropout.row(row, args.seq_length);
        store_piece<aligned>(args.r_out + std::int64_t{row} * args.hidden, at, args.hidden,
                             residual_sum<T>(stream[i], branch[i], dropout, where, at));
    });
}

template <class T>
void add(const ResidualAdd& op, const OpContext& context) {
    const std::int64_t hidden = op.r.size(1);
    const AddArgs<T> args = {.r = op.r.as<T>(),
                             .y = op.y.as<T>(),
                             .r_out = op.r_out.as<T>(),
                             .tokens = static_cast<int>(op.r.size(0)),
                             .hidden = static_cast<int>(hidden),
                             .seq_length = static_cast<int>(op.seq_length),
                             .dropout = DropoutParams(op.dropout)};
    const auto whole = [&](const T* rows) { return is_aligned(rows, hidden, hidden); };
    const bool aligned = whole(args.r) && whole(args.y) && whole(args.r_out);
    const PieceGrid grid = piece_grid(args.tokens, hidden, piece_width<T>);
    launch(context.stream,
           {.blocks = grid.blocks, .threads = grid.threads, .blocks_y = grid.columns},
           aligned ? residual_add_kernel<T, true> : residual_add_kernel<T, false>, args);
}

}  // namespace

void run(const ResidualAdd& args, const OpContext& context) {
    GPTRAIN_CHECK(args.r.rank() == 2 && args.r.size(0) <= INT32_MAX && args.r.size(1) <= INT32_MAX,
                  "residual sum of ", args.r.shape().to_text());
    with_compute_type(args.r.dtype(), [&](auto type) { add<decltype(type)>(args, context); });
}

}  // namespace gptrain::cuda
