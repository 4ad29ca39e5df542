#include "cuda/ops/cross_entropy.h"

#include "cuda/device/tanh.cuh"
#include "cuda/ops/logit_row.cuh"
#include "cuda/ops/ordered_sum.h"
#include "cuda/ops/step.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

template <class T>
struct LossArgs {
    T* logits;
    std::int64_t stride;
    int vocab;
    const std::int32_t* targets;
    std::int64_t vocab_begin;
    const float* weights;
    const StepState* state;
    double* losses;  ///< one per row
    float* maximum;  ///< for a split vocabulary
    float* sums;     ///< for a split vocabulary
    int kept;        ///< pieces of the row kept in shared memory
    double factor;   ///< of the gradient
    bool gradient;
    float softcap;  ///< 0: none
    float inverse_softcap;
};

/// The kept pieces follow it.
template <class T>
struct alignas(16) UnsplitShared {
    RowShared row;
};

/// The numbers that remain of a row once its exponentials are summed.
struct RowResult {
    float weight;
    Exponentials exponentials;
    std::int64_t target;  ///< index in the row; may be outside it
    float target_logit;

    __device__ double loss() const {
        if (weight == 0) return 0;
        const double log_sum = static_cast<double>(exponentials.maximum) +
                               logarithm(static_cast<double>(exponentials.sum));
        return static_cast<double>(weight) * (log_sum - static_cast<double>(target_logit));
    }
};

/// Replaces the logits by factor (softmax - onehot(target)), if `capped` times the slope of the
/// cap.
template <class T, bool aligned, bool capped>
class RowGradient {
public:
    __device__ RowGradient(const LogitRow<T, aligned>& row, const RowResult& result, float factor,
                           float inverse_softcap)
        : row_(row),
          result_(result),
          factor_(factor),
          scale_(factor / result.exponentials.sum),
          inverse_softcap_(inverse_softcap) {}

    /// Writes factor softmax for one piece.
    __device__ void operator()(int piece, const Vec16<T>& logits) const {
        float x[piece_width<T>];
        widen(logits, x);
        for (float& value : x) {
            const float share = capped ? value * inverse_softcap_ : 0;
            value = scale_ * exp_difference(value, result_.exponentials.maximum);
            if (capped) value *= fma(-share, share, 1.0f);
        }
        row_.store(piece, narrow_piece<T>(x));
    }

    /// Call after all pieces. Uses fp64, because the difference is small when the model is
    /// confident.
    __device__ void write_target() const {
        if (!row_.holds(result_.target) || !row_.stored_by_this_thread(result_.target)) return;
        const double p = exponential(static_cast<double>(result_.target_logit) -
                                     static_cast<double>(result_.exponentials.maximum)) /
                         static_cast<double>(result_.exponentials.sum);
        double gradient = static_cast<double>(factor_) * (p - 1);
        if (capped) {
            const double share =
                static_cast<double>(result_.target_logit) * static_cast<double>(inverse_softcap_);
            gradient *= 1 - share * share;
        }
        row_.replace(result_.target, static_cast<float>(gradient));
    }

private:
    const LogitRow<T, aligned>& row_;
    const RowResult& result_;
    float factor_;
    float scale_;
    float inverse_softcap_;
};

template <class T, bool aligned>
__device__ inline void write_zeros(const LogitRow<T, aligned>& row) {
    for (int piece = thread_index(); piece < row.pieces(); piece += row_threads)
        row.store(piece, Vec16<T>{});
}

template <class T>
__device__ inline float gradient_factor(const LossArgs<T>& args, float weight) {
    const double scale = args.state->loss_scale / args.state->token_weight_sum;
    return static_cast<float>(static_cast<double>(weight) * (args.factor * scale));
}

template <class T, bool aligned>
__device__ inline LogitRow<T, aligned> block_row(const LossArgs<T>& args) {
    return {args.logits + block_index().x * args.stride, args.vocab};
}

template <class T, bool aligned, bool capped>
__global__ void __launch_bounds__(row_threads, 2) unsplit_kernel(LossArgs<T> args) {
    auto& shared = shared_memory<UnsplitShared<T>>();
    auto* kept = reinterpret_cast<Vec16<T>*>(&shared + 1);
    const int c = block_index().x;
    const auto row = block_row<T, aligned>(args);
    RowResult result = {args.weights[c], {}, args.targets[c], 0};
    if (result.weight == 0) {
        if (thread_index() == 0) args.losses[c] = 0;
        if (args.gradient) write_zeros(row);
        return;
    }
    // All threads read it before one overwrites it; barriers separate the two.
    if (row.holds(result.target)) result.target_logit = row.logit(result.target);
    Exponentials own;
    row.for_each(0, row.pieces(), [&](int piece, const Vec16<T>& logits) {
        if (piece < args.kept) store(kept + piece, logits);
        own.add(logits);
    });
    result.exponentials = own.reduce_block(shared.row);
    if (thread_index() == 0) args.losses[c] = result.loss();
    if (!args.gradient) return;
    const RowGradient<T, aligned, capped> gradient(
        row, result, gradient_factor(args, result.weight), args.inverse_softcap);
    for (int piece = thread_index(); piece < args.kept; piece += row_threads)
        gradient(piece, load(kept + piece));
    row.for_each(args.kept, row.pieces(), gradient);
    gradient.write_target();
}

template <class T, bool aligned>
__global__ void __launch_bounds__(row_threads, 2) maximum_kernel(LossArgs<T> args) {
    auto& shared = shared_memory<RowShared>();
    const auto row = block_row<T, aligned>(args);
    float largest = minus_infinity;
    row.for_each(0, row.pieces(), [&](int, const Vec16<T>& logits) {
        for (const T& logit : logits.values)
            largest = maximum(largest, widen(logit));
    });
    largest = block_maximum(largest, shared.maxima);
    if (thread_index() == 0) args.maximum[block_index().x] = largest;
}

template <class T, bool aligned>
__global__ void __launch_bounds__(row_threads, 2) sums_kernel(LossArgs<T> args) {
    auto& shared = shared_memory<RowShared>();
    const int c = block_index().x;
    const auto row = block_row<T, aligned>(args);
    const float largest = args.maximum[c];
    float sum = 0;
    row.for_each(0, row.pieces(), [&](int, const Vec16<T>& logits) {
        for (const T& logit : logits.values)
            sum = sum + exp_difference(widen(logit), largest);
    });
    sum = block_sum(sum, shared.sums);
    if (thread_index() != 0) return;
    const std::int64_t target = args.targets[c] - args.vocab_begin;
    args.sums[2 * c] = sum;
    args.sums[2 * c + 1] = row.holds(target) ? row.logit(target) : 0.0f;
}

template <class T, bool aligned, bool capped>
__global__ void __launch_bounds__(row_threads, 2) gradient_kernel(LossArgs<T> args) {
    const int c = block_index().x;
    const auto row = block_row<T, aligned>(args);
    const Exponentials all = {args.maximum[c], args.sums[2 * c]};
    const RowResult result = {args.weights[c], all, args.targets[c] - args.vocab_begin,
                              args.sums[2 * c + 1]};
    if (thread_index() == 0) args.losses[c] = result.loss();
    if (!args.gradient) return;
    if (result.weight == 0) return write_zeros(row);
    const RowGradient<T, aligned, capped> gradient(
        row, result, gradient_factor(args, result.weight), args.inverse_softcap);
    row.for_each(0, row.pieces(), gradient);
    gradient.write_target();
}

template <class T, bool aligned>
__global__ void __launch_bounds__(row_threads) soft_cap_kernel(LossArgs<T> args) {
    const auto row = block_row<T, aligned>(args);
    row.for_each(0, row.pieces(), [&](int piece, const Vec16<T>& logits) {
        float x[piece_width<T>];
        widen(logits, x);
        for (float& value : x)
            value = args.softcap * tanh(value * args.inverse_softcap);
        row.store(piece, narrow_piece<T>(x));
    });
}

struct BySource {
    double* sums;
    std::int64_t count;
    const std::int32_t* sources;
    std::int64_t first_row;
    std::int64_t length;
};

/// A thread adds the rows of one source, in order.
__global__ void __launch_bounds__(row_threads)
    add_by_source(BySource to, const double* losses, const float* weights, std::int64_t rows) {
    const std::int64_t source = std::int64_t{block_index().x} * row_threads + thread_index();
    if (source >= to.count) return;
    double loss = 0, weight = 0;
    for (std::int64_t c = 0; c < rows; ++c) {
        if (to.sources[(to.first_row + c) / to.length] != source) continue;
        loss = loss + losses[c];
        weight = weight + static_cast<double>(weights[c]);
    }
    to.sums[2 * source] = to.sums[2 * source] + loss;
    to.sums[2 * source + 1] = to.sums[2 * source + 1] + weight;
}

// ---- launches -----------------------------------------------------------------------------------

template <class T>
LossArgs<T> row_args(const Tensor& logits) {
    const Rows<T> rows(logits);
    GPTRAIN_CHECK(logits.size(1) <= INT32_MAX - 16, "too many columns in ",
                  logits.shape().to_text());
    LossArgs<T> args = {};
    args.logits = rows.data;
    args.stride = rows.stride;
    args.vocab = static_cast<int>(logits.size(1));
    return args;
}

template <class T>
void set_cap(LossArgs<T>& args, float cap) {
    args.softcap = cap;
    if (cap > 0) args.inverse_softcap = 1 / cap;
}

template <class T>
LossArgs<T> loss_args(const CrossEntropy& op, double* losses) {
    LossArgs<T> args = row_args<T>(op.logits);
    args.targets = op.targets.as<std::int32_t>();
    args.weights = op.weights.as<float>();
    args.state = step_state(op.step);
    args.losses = losses;
    args.factor = op.sink.factor;
    args.gradient = op.gradient;
    set_cap(args, op.softcap);
    return args;
}

template <class T>
struct RowKernel {
    void (*aligned)(LossArgs<T>);
    void (*unaligned)(LossArgs<T>);
};

/// One block per row.
template <class T>
void launch_rows(const RowKernel<T>& kernel, const LossArgs<T>& args, std::int64_t rows,
                 std::int64_t shared_bytes, const OpContext& context) {
    const bool aligned = is_aligned(args.logits, args.stride, 0);
    launch(context.stream, {.blocks = rows, .threads = row_threads, .shared_bytes = shared_bytes},
           aligned ? kernel.aligned : kernel.unaligned, args);
}

template <class T>
void unsplit_cross_entropy(const CrossEntropy& op, double* losses, const OpContext& context) {
    auto args = loss_args<T>(op, losses);
    constexpr auto own_bytes = static_cast<std::int64_t>(sizeof(UnsplitShared<T>));
    if (args.gradient) {
        const std::int64_t pieces = div_ceil(args.vocab, piece_width<T>);
        const std::int64_t capacity = (context.device.shared_bytes - own_bytes) / 16;
        // If only part of the row fits, cut it where all threads have the same number of pieces.
        args.kept =
            static_cast<int>(pieces <= capacity ? pieces : capacity / row_threads * row_threads);
    }
    const RowKernel<T> kernel =
        op.softcap > 0
            ? RowKernel<T>{unsplit_kernel<T, true, true>, unsplit_kernel<T, false, true>}
            : RowKernel<T>{unsplit_kernel<T, true, false>, unsplit_kernel<T, false, false>};
    launch_rows<T>(kernel, args, op.logits.size(0), own_bytes + args.kept * std::int64_t{16},
                   context);
}

void add_losses(const double* losses, const CrossEntropy& op, const OpContext& context) {
    const std::int64_t rows = op.logits.size(0);
    add_in_order(losses, rows, op.sink.sum.as<double>(), context.stream);
    const LossBySource& by_source = op.sink.by_source;
    if (by_source.sums.empty()) return;
    const std::int64_t count = by_source.sums.size(0);
    launch(context.stream, {.blocks = div_ceil(count, row_threads), .threads = row_threads},
           add_by_source,
           BySource{by_source.sums.as<double>(), count, by_source.sources.as<std::int32_t>(),
                    by_source.first_row, by_source.length},
           losses, op.weights.as<float>(), rows);
}

}  // namespace

void run(const SoftCap& op, const OpContext& context) {
    with_compute_type(op.x.dtype(), [&](auto type) {
        using T = decltype(type);
        LossArgs<T> args = row_args<T>(op.x);
        set_cap(args, op.cap);
        launch_rows<T>({soft_cap_kernel<T, true>, soft_cap_kernel<T, false>}, args, op.x.size(0), 0,
                       context);
    });
}

void run(const CrossEntropy& args, const OpContext& context) {
    const std::int64_t rows = args.logits.size(0);
    auto* losses = context.scratch.take<double>(rows);
    with_compute_type(args.logits.dtype(), [&](auto type) {
        unsplit_cross_entropy<decltype(type)>(args, losses, context);
    });
    add_losses(losses, args, context);
}

void run(const VocabParallelMaximum& op, const OpContext& context) {
    with_compute_type(op.logits.dtype(), [&](auto type) {
        using T = decltype(type);
        LossArgs<T> args = row_args<T>(op.logits);
        args.maximum = op.maximum.as<float>();
        launch_rows<T>({maximum_kernel<T, true>, maximum_kernel<T, false>}, args, op.logits.size(0),
                       sizeof(RowShared), context);
    });
}

void run(const VocabParallelSums& op, const OpContext& context) {
    with_compute_type(op.logits.dtype(), [&](auto type) {
        using T = decltype(type);
        LossArgs<T> args = row_args<T>(op.logits);
        args.targets = op.targets.as<std::int32_t>();
        args.vocab_begin = op.vocab_begin;
        args.maximum = op.maximum.as<float>();
        args.sums = op.sums.as<float>();
        launch_rows<T>({sums_kernel<T, true>, sums_kernel<T, false>}, args, op.logits.size(0),
                       sizeof(RowShared), context);
    });
}

void run(const VocabParallelGradient& op, const OpContext& context) {
    const std::int64_t rows = op.loss.logits.size(0);
    auto* losses = context.scratch.take<double>(rows);
    with_compute_type(op.loss.logits.dtype(), [&](auto type) {
        using T = decltype(type);
        LossArgs<T> args = loss_args<T>(op.loss, losses);
        args.vocab_begin = op.vocab_begin;
        args.maximum = op.maximum.as<float>();
        args.sums = op.sums.as<float>();
        const RowKernel<T> kernel =
            op.loss.softcap > 0
                ? RowKernel<T>{gradient_kernel<T, true, true>, gradient_kernel<T, false, true>}
                : RowKernel<T>{gradient_kernel<T, true, false>, gradient_kernel<T, false, false>};
        launch_rows<T>(kernel, args, rows, 0, context);
    });
    add_losses(losses, op.loss, context);
}

}  // namespace gptrain::cuda
