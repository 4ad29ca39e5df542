#include "cuda/ops/rope.h"

#include <numbers>

#include "cuda/device/amax.cuh"
#include "cuda/device/pieces.cuh"
#include "cuda/device/unrolled.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

/// Tokens per block; each thread rotates the same two pieces of all of them.
constexpr int tokens_of_block = 8;
constexpr int max_pairs = 128;

template <class T>
struct RopeArgs {
    T* x;
    std::int64_t stride_b;
    std::int64_t stride_s;
    std::int64_t stride_head;
    const std::int32_t* positions;
    int tokens;
    int seq_length;
    int heads;
    int pairs;  ///< D / 2
    bool inverse;
    float* amax;                   ///< of x, rotated, if requested
    double amplitude;              ///< of cosines and sines
    double half_turns[max_pairs];  ///< angles at position 1, in units of pi

    /// 16-byte pieces in half a head.
    __host__ __device__ int pieces() const { return (pairs + piece_width<T> - 1) / piece_width<T>; }
};

struct RopeShared {
    std::int64_t rows[tokens_of_block];  ///< element offsets of the tokens
    float cosines[tokens_of_block * max_pairs];
    float sines[tokens_of_block * max_pairs];
    float of_warps[warp_threads];
};

/// In fp64, because positions are large.
template <class T>
__device__ inline void make_rotations(const RopeArgs<T>& args, int first_token, int count,
                                      RopeShared& shared) {
    for (int i = thread_index(); i < count * args.pairs; i += block_threads()) {
        const int token = first_token + i / args.pairs;
        const double angle = args.positions[token] * args.half_turns[i % args.pairs];
        const auto sine = static_cast<float>(args.amplitude * sine_pi(angle));
        shared.cosines[i] = static_cast<float>(args.amplitude * cosine_pi(angle));
        shared.sines[i] = args.inverse ? -sine : sine;
    }
    if (thread_index() < count) {
        const int token = first_token + thread_index();
        shared.rows[thread_index()] =
            token / args.seq_length * args.stride_b + token % args.seq_length * args.stride_s;
    }
    block_barrier();
}

/// Two pieces of a head, half a head apart.
template <class T>
struct Halves {
    Vec16<T> low;
    Vec16<T> high;
};

template <bool aligned, class T>
__device__ inline void rotate(const float* cosines, const float* sines, int at, int pairs,
                              Halves<T>& halves) {
    for (int i = 0; i < piece_width<T>; ++i) {
        if (!in_row<T, aligned>(at, i, pairs)) continue;
        const float a = widen(halves.low[i]);
        const float b = widen(halves.high[i]);
        halves.low[i] = narrow<T>(a * cosines[at + i] - b * sines[at + i]);
        halves.high[i] = narrow<T>(b * cosines[at + i] + a * sines[at + i]);
    }
}

/// Rotates this thread's pieces of `count` tokens.
template <class T, bool aligned, bool with_amax>
__device__ inline void rotate_tokens(const RopeArgs<T>& args, int count, const RopeShared& shared,
                                     RunningAmax<with_amax>& amax) {
    const int index = block_index().y * block_threads() + thread_index();
    if (index >= args.heads * args.pieces()) return;
    const int at = index % args.pieces() * piece_width<T>;
    T* x = args.x + index / args.pieces() * args.stride_head;
    constexpr int unroll = 4;
    for (int first = 0; first < count; first += unroll) {
        Halves<T> batch[unroll];
        for (int i = 0; i < unroll; ++i) {
            // Clamp to the last token, so that loads are unconditional and can be grouped.
            const T* row = x + shared.rows[first + i < count ? first + i : count - 1];
            batch[i] = {load_piece<aligned>(row, at, args.pairs),
                        load_piece<aligned>(row + args.pairs, at, args.pairs)};
        }
        unrolled<unroll>([&](int i) {
            if (first + i >= count) return;
            const int rotation = (first + i) * args.pairs;
            rotate<aligned>(shared.cosines + rotation, shared.sines + rotation, at, args.pairs,
                            batch[i]);
            T* row = x + shared.rows[first + i];
            store_piece<aligned>(row, at, args.pairs, batch[i].low);
            store_piece<aligned>(row + args.pairs, at, args.pairs, batch[i].high);
            amax.template add<aligned>(batch[i].low, at, args.pairs);
            amax.template add<aligned>(batch[i].high, at, args.pairs);
        });
    }
}

template <class T, bool aligned, bool with_amax>
__global__ void __launch_bounds__(256) rope_kernel(RopeArgs<T> args) {
    auto& shared = shared_memory<RopeShared>();
    const int first_token = block_index().x * tokens_of_block;
    const int rest = args.tokens - first_token;
    const int count = rest < tokens_of_block ? rest : tokens_of_block;
    make_rotations(args, first_token, count, shared);
    RunningAmax<with_amax> amax;
    rotate_tokens<T, aligned>(args, count, shared, amax);
    amax.merge(shared.of_warps, args.amax);
}

template <class T>
RopeArgs<T> rope_args(const Rope& op) {
    const std::int64_t pairs = op.x.size(3) / 2;
    GPTRAIN_CHECK(op.x.size(3) % 2 == 0 && pairs >= 1 && pairs <= max_pairs &&
                      op.x.stride(3) == 1 &&
                      op.x.size(0) * op.x.size(1) <= INT32_MAX - tokens_of_block &&
                      op.x.size(2) <= INT32_MAX / 4096,
                  "rope of ", op.x.shape().to_text());
    RopeArgs<T> args = {.x = op.x.as<T>(),
                        .stride_b = op.x.stride(0),
                        .stride_s = op.x.stride(1),
                        .stride_head = op.x.stride(2),
                        .positions = op.positions.as<std::int32_t>(),
                        .tokens = static_cast<int>(op.x.size(0) * op.x.size(1)),
                        .seq_length = static_cast<int>(op.x.size(1)),
                        .heads = static_cast<int>(op.x.size(2)),
                        .pairs = static_cast<int>(pairs),
                        .inverse = op.inverse,
                        .amax = pointer_or_null<float>(op.amax),
                        .amplitude = op.angles().amplitude(),
                        .half_turns = {}};
    for (int i = 0; i < args.pairs; ++i)
        args.half_turns[i] = op.angles().frequency(i) / std::numbers::pi;
    return args;
}

template <class T>
void rotate_heads(const Rope& op, const OpContext& context) {
    const RopeArgs<T> args = rope_args<T>(op);
    constexpr int width = piece_width<T>;
    const bool aligned = is_aligned(args.x, args.stride_b, args.pairs) &&
                         args.stride_s % width == 0 && args.stride_head % width == 0;
    const PieceGrid grid = piece_grid(1, std::int64_t{args.heads} * args.pieces(), 1);
    const auto start = [&](auto* kernel) {
        launch(context.stream,
               {.blocks = div_ceil(args.tokens, tokens_of_block),
                .threads = grid.threads,
                .shared_bytes = sizeof(RopeShared),
                .blocks_y = grid.columns},
               kernel, args);
    };
    if (args.amax == nullptr) {
        start(aligned ? rope_kernel<T, true, false> : rope_kernel<T, false, false>);
    } else {
        start(aligned ? rope_kernel<T, true, true> : rope_kernel<T, false, true>);
    }
}

}  // namespace

void run(const Rope& args, const OpContext& context) {
    with_compute_type(args.x.dtype(),
                      [&](auto type) { rotate_heads<decltype(type)>(args, context); });
}

}  // namespace gptrain::cuda
