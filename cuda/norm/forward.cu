#include <type_traits>

#include "cuda/device/amax.cuh"
#include "cuda/device/fp8_rows.cuh"
#include "cuda/device/pieces.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/unrolled.cuh"
#include "cuda/norm/norm.h"
#include "cuda/norm/residual_sum.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

template <class T>
struct ForwardArgs {
    const T* r;
    const T* y;  ///< may be null
    T* r_out;    ///< null without y
    const T* weight;
    const T* bias;  ///< may be null
    T* n;           ///< may be null with n8
    float* mean;    ///< may be null
    float* rstd;
    float* amax;  ///< amax of n, if requested
    Fp8Rows n8;   ///< if requested
    int tokens;
    int hidden;
    int seq_length;
    float eps;
    bool rms;
    DropoutParams dropout;
};

/// A group of threads handles a row: a warp or the whole block.
template <int group>
constexpr int forward_threads = group == warp_threads ? 128 : group;

/// Per warp: sums of the group and, at the end, the block's amax.
template <int group>
struct ForwardShared {
    float mean[group / warp_threads];
    float squares[group / warp_threads];
    float warp_amax[forward_threads<group> / warp_threads];
};

template <int group>
__device__ inline float group_sum(float x, float (&of_warps)[group / warp_threads]) {
    if constexpr (group == warp_threads) {
        return warp_sum(x);
    } else {
        return block_sum(x, of_warps);
    }
}

/// One thread's pieces of a row: every group-th piece. If `pieces_per_thread` > 0 the thread has at
/// most that many pieces and keeps them all in registers; with 0 it rereads them each time.
template <class T, int group, int pieces_per_thread, bool aligned>
class RowPart {
public:
    __device__ RowPart(const T* row, int hidden)
        : row_(row), first_(thread_index() % group * piece_width<T>), hidden_(hidden) {
        for (int i = 0; i < pieces_per_thread; ++i) {
            if (at(i) < hidden) pieces_[i] = load_piece_once<aligned>(row, at(i), hidden);
        }
    }

    /// row = round(row + dropout(y)), also stored in `out`.
    __device__ void add(const T* y, const FeatureDropout& dropout, const FeatureDropout::Row& where,
                        T* out) {
        if constexpr (pieces_per_thread > 0) {
            Vec16<T> branch[pieces_per_thread];
            for (int i = 0; i < pieces_per_thread; ++i) {
                if (at(i) < hidden_) branch[i] = load_piece_once<aligned>(y, at(i), hidden_);
            }
            unrolled<pieces_per_thread>([&](int i) {
                if (at(i) >= hidden_) return;
                pieces_[i] = residual_sum<T>(pieces_[i], branch[i], dropout, where, at(i));
                store_piece_once<aligned>(out, at(i), hidden_, pieces_[i]);
            });
        } else {
            for (int i = 0; at(i) < hidden_; ++i) {
                const Vec16<T> branch = load_piece_once<aligned>(y, at(i), hidden_);
                const Vec16<T> stream = load_piece_once<aligned>(row_, at(i), hidden_);
                store_piece<aligned>(out, at(i), hidden_,
                                     residual_sum<T>(stream, branch, dropout, where, at(i)));
            }
            row_ = out;
        }
    }

    /// Calls f(first element, piece) for all pieces in order.
    template <class F>
    __device__ void for_each(const F& f) const {
        if constexpr (pieces_per_thread > 0) {
            unrolled<pieces_per_thread>([&](int i) {
                if (at(i) < hidden_) f(at(i), pieces_[i]);
            });
        } else {
            for (int i = 0; at(i) < hidden_; ++i)
                f(at(i), load_piece<aligned>(row_, at(i), hidden_));
        }
    }

    /// Calls f(first element, piece, true) for all pieces in order, on lanes that have fewer than
    /// others of their warp with false for what is behind the end of the row.
    template <class F>
    __device__ void for_each_together(const F& f) const {
        const auto piece_of = [&](int i) {
            if constexpr (pieces_per_thread > 0) return pieces_[i];
            return load_piece<aligned>(row_, at(i), hidden_);
        };
        const auto call = [&](int i) {
            const bool inside = at(i) < hidden_;
            f(at(i), inside ? piece_of(i) : Vec16<T>{}, inside);
        };
        if constexpr (pieces_per_thread > 0) {
            unrolled<pieces_per_thread>(call);
        } else {
            for (int i = 0; i * group * piece_width<T> < hidden_; ++i)
                call(i);
        }
    }

private:
    __device__ int at(int i) const { return first_ + i * group * piece_width<T>; }

    const T* row_;
    int first_;
    int hidden_;
    Vec16<T> pieces_[pieces_per_thread > 0 ? pieces_per_thread : 1];
};

struct Statistics {
    float mean;
    float rstd;
};

template <class T, int group, int pieces_per_thread, bool aligned>
__device__ inline Statistics statistics(const RowPart<T, group, pieces_per_thread, aligned>& row,
                                        const ForwardArgs<T>& args) {
    ForwardShared<group>& shared = shared_memory<ForwardShared<group>>();
    const auto count = static_cast<float>(args.hidden);
    Statistics result = {};
    if (!args.rms) {
        float sum = 0;
        row.for_each([&](int /*at*/, const Vec16<T>& piece) {
            float x[piece_width<T>];
            widen(piece, x);
            for (const float element : x)
                sum = sum + element;
        });
        result.mean = group_sum<group>(sum, shared.mean) / count;
    }
    float squares = 0;
    row.for_each([&](int at, const Vec16<T>& piece) {
        float x[piece_width<T>];
        widen(piece, x);
        for (int i = 0; i < piece_width<T>; ++i) {
            const float deviation = x[i] - result.mean;
            if (in_row<T, aligned>(at, i, args.hidden))
                squares = fma(deviation, deviation, squares);
        }
    });
    const float variance = group_sum<group>(squares, shared.squares) / count;
    result.rstd = 1.0f / square_root(variance + args.eps);
    return result;
}

/// (x - mean) rstd weight + bias for one piece.
template <bool aligned, class T>
__device__ inline Vec16<T> normalised(const ForwardArgs<T>& args, const Statistics& stats, int at,
                                      const Vec16<T>& piece) {
    float weight[piece_width<T>];
    float bias[piece_width<T>] = {};
    float x[piece_width<T>];
    widen(load_piece<aligned>(args.weight, at, args.hidden), weight);
    if (args.bias != nullptr) widen(load_piece<aligned>(args.bias, at, args.hidden), bias);
    widen(piece, x);
    for (int i = 0; i < piece_width<T>; ++i)
        x[i] = fma((x[i] - stats.mean) * stats.rstd, weight[i], bias[i]);
    return narrow_piece<T>(x);
}

/// Threads per multiprocessor that the register file allows; fp16 needs one more register than
/// bf16.
template <class T, int group, int pieces_per_thread, Beside beside>
constexpr int resident_threads = pieces_per_thread == 4 && group == 512 ? 512
                                 : pieces_per_thread == 4 ||
                                         (beside == Beside::amax && std::is_same_v<T, F16>)
                                     ? 768
                                     : 1024;

template <class T, int group, int pieces_per_thread, bool aligned, Beside beside>
__device__ inline void forward_row(const ForwardArgs<T>& args, int token,
                                   RunningAmax<beside == Beside::amax>& amax) {
    const std::int64_t begin = std::int64_t{token} * args.hidden;
    RowPart<T, group, pieces_per_thread, aligned> row(args.r + begin, args.hidden);
    if (args.y != nullptr) {
        const FeatureDropout dropout(args.dropout);
        row.add(args.y + begin, dropout, dropout.row(token, args.seq_length), args.r_out + begin);
    }
    const Statistics stats = statistics(row, args);
    if (thread_index() % group == 0) {
        if (args.mean != nullptr) args.mean[token] = stats.mean;
        args.rstd[token] = stats.rstd;
    }
    if constexpr (beside == Beside::fp8_rows) {
        row.for_each_together([&](int at, const Vec16<T>& piece, bool inside) {
            Vec16<T> n = {};
            if (inside) {
                n = normalised<aligned>(args, stats, at, piece);
                if (args.n != nullptr) store_piece<aligned>(args.n + begin, at, args.hidden, n);
            }
            args.n8.store_piece(token, at, inside, n);
        });
    } else {
        row.for_each([&](int at, const Vec16<T>& piece) {
            const Vec16<T> n = normalised<aligned>(args, stats, at, piece);
            store_piece<aligned>(args.n + begin, at, args.hidden, n);
            amax.template add<aligned>(n, at, args.hidden);
        });
    }
}

/// A group handles a row.
template <class T, int group, int pieces_per_thread, bool aligned, Beside beside>
__global__ void __launch_bounds__(forward_threads<group>,
                                  resident_threads<T, group, pieces_per_thread, beside> /
                                      forward_threads<group>) forward_kernel(ForwardArgs<T> args) {
    const int token = block_index().x * (forward_threads<group> / group) + thread_index() / group;
    RunningAmax<beside == Beside::amax> amax;
    if (token < args.tokens)
        forward_row<T, group, pieces_per_thread, aligned, beside>(args, token, amax);
    amax.merge(shared_memory<ForwardShared<group>>().warp_amax, args.amax);
}

template <class T>
struct ForwardKernel {
    void (*kernel)(ForwardArgs<T>);
    int group;
};

template <class T, Beside beside, int group>
ForwardKernel<T> choose_kernel(std::int64_t pieces, bool aligned) {
    if constexpr (beside != Beside::fp8_rows) {
        if (!aligned) return {forward_kernel<T, group, 0, false, beside>, group};
    }
    switch (div_ceil(pieces, group)) {
        case 1:
            // Longer rows use larger groups.
            if constexpr (group == warp_threads)
                return {forward_kernel<T, group, 1, true, beside>, group};
            [[fallthrough]];
        case 2: return {forward_kernel<T, group, 2, true, beside>, group};
        case 3: return {forward_kernel<T, group, 3, true, beside>, group};
        case 4: return {forward_kernel<T, group, 4, true, beside>, group};
        default: return {forward_kernel<T, group, 0, true, beside>, group};
    }
}

/// The group size, and so the order of the sums, depends only on H.
template <class T, Beside beside>
ForwardKernel<T> choose_kernel(std::int64_t hidden, bool aligned) {
    const std::int64_t pieces = div_ceil(hidden, piece_width<T>);
    if (pieces <= 4 * warp_threads) return choose_kernel<T, beside, warp_threads>(pieces, aligned);
    if (pieces <= 4 * 128) return choose_kernel<T, beside, 128>(pieces, aligned);
    return choose_kernel<T, beside, 512>(pieces, aligned);
}

template <class T>
void forward(const ResidualNormForward& op, const OpContext& context) {
    const std::int64_t hidden = op.r.size(1);
    const ForwardArgs<T> args = {.r = op.r.as<T>(),
                                 .y = pointer_or_null<T>(op.y),
                                 .r_out = pointer_or_null<T>(op.r_out),
                                 .weight = op.norm.weight.as<T>(),
                                 .bias = pointer_or_null<T>(op.norm.bias),
                                 .n = pointer_or_null<T>(op.n),
                                 .mean = pointer_or_null<float>(op.mean),
                                 .rstd = op.rstd.as<float>(),
                                 .amax = pointer_or_null<float>(op.amax),
                                 .n8 = Fp8Rows(op.n8),
                                 .tokens = static_cast<int>(op.r.size(0)),
                                 .hidden = static_cast<int>(hidden),
                                 .seq_length = static_cast<int>(op.seq_length),
                                 .eps = op.norm.eps,
                                 .rms = op.norm.rms,
                                 .dropout = DropoutParams(op.dropout)};
    const auto whole = [&](const T* row) { return is_aligned(row, hidden, hidden); };
    const bool aligned = whole(args.r) && whole(args.y) && whole(args.r_out) && whole(args.n) &&
                         whole(args.weight) && whole(args.bias);
    const auto [kernel, group] = with_beside<T>(args.n8, args.amax, aligned, [&](auto beside) {
        return choose_kernel<T, beside()>(hidden, aligned);
    });
    const int threads = group == warp_threads ? forward_threads<warp_threads> : group;
    launch(context.stream,
           {.blocks = div_ceil(args.tokens, threads / group),
            .threads = threads,
            .shared_bytes = sizeof(ForwardShared<512>)},
           kernel, args);
}

}  // namespace

void run(const ResidualNormForward& args, const OpContext& context) {
    GPTRAIN_CHECK(args.r.rank() == 2 && args.r.size(0) <= INT32_MAX && args.r.size(1) <= INT32_MAX,
                  "norm of ", args.r.shape().to_text());
    GPTRAIN_CHECK(args.y.empty() == args.r_out.empty(), "r_out belongs to y");
    GPTRAIN_CHECK(!(args.n.empty() && args.n8.empty()) && !args.rstd.empty(),
                  "a norm without an output");
    with_compute_type(args.r.dtype(), [&](auto type) { forward<decltype(type)>(args, context); });
}

}  // namespace gptrain::cuda
