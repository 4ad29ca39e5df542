#include <algorithm>

#include "cuda/device/partial_sums.h"
#include "cuda/device/unrolled.cuh"
#include "cuda/norm/backward_row.cuh"
#include "cuda/norm/long_rows.cuh"
#include "cuda/norm/norm.h"
#include "cuda/norm/scratch_sizes.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int max_threads = 512;
constexpr int max_warps = max_threads / warp_threads;
/// Depth of the pipeline of row copies: as many rows as fit in the shared memory of small GPUs.
template <int pieces_per_thread>
constexpr int stages = pieces_per_thread == 1 ? 3 : 2;
/// dn, r and, if there is room, dr.
template <int pieces_per_thread>
constexpr int staged_tensors = pieces_per_thread <= 2 ? 3 : 2;

/// True if a thread keeps its part of the weight in registers; otherwise it rereads it for each
/// row.
template <int pieces_per_thread>
constexpr bool keeps_weight = pieces_per_thread <= 2;

template <class T, int pieces_per_thread>
struct BackwardShared {
    union {
        /// Each thread copies into its own pieces and reads no others.
        Vec16<T> pieces[stages<pieces_per_thread>][staged_tensors<pieces_per_thread>]
                       [pieces_per_thread][max_threads];
        /// At the end: the groups' sums, [dweight, dbias][groups][H].
        float totals[2 * max_threads * pieces_per_thread * piece_width<T>];
    };
    /// A row's sums per warp, double-buffered: one row may be in flight while another is finished.
    RowSums sums[2][max_warps];
    float warp_amax[max_warps];
};

/// Sums over the threads of a group, which consists of whole warps. `of_warps` may be overwritten
/// after the next call, if that uses other memory.
__device__ inline RowSums group_sums(RowSums (&of_warps)[max_warps], int group, int group_threads,
                                     RowSums own) {
    own[0] = warp_sum(own[0]);
    own[1] = warp_sum(own[1]);
    if (group_threads == warp_threads) return own;
    const int at = warp_index();
    if (lane_index() == 0) store(&of_warps[at], own);
    barrier_wait(1 + group, group_threads);
    const int warps = group_threads / warp_threads;
    RowSums sums = load(&of_warps[group * warps]);
    for (int warp = 1; warp < warps; ++warp) {
        const RowSums next = load(&of_warps[group * warps + warp]);
        sums[0] = sums[0] + next[0];
        sums[1] = sums[1] + next[1];
    }
    return sums;
}

/// One thread's share of the rows: pieces lane, lane + group, ... of each row of its group.
template <class T, int pieces_per_thread, Beside beside>
class BackwardThread {
public:
    __device__ BackwardThread(const NormBackwardArgs<T>& args,
                              BackwardShared<T, pieces_per_thread>& shared)
        : args_(args),
          shared_(shared),
          dropout_(args.dropout),
          tokens_(tokens_of_block(args.tokens)),
          group_(warp_index() / (args.group / warp_threads)),
          groups_(block_threads() / args.group),
          first_(thread_index() % args.group * piece_width<T>) {
        if constexpr (keeps_weight<pieces_per_thread>) {
            for (int i = 0; i < pieces_per_thread; ++i) {
                if (is_mine(i)) weight_[i] = load_weight(i);
            }
        }
    }

    /// The block's rows go to its groups in turn; the next ones are copied to shared memory while
    /// one is processed.
    __device__ void run() {
        const int first_token = tokens_.begin + group_;
        for (int stage = 0; stage < stages<pieces_per_thread> - 1; ++stage)
            start_copy(first_token + stage * groups_, stage);
        int stage = 0;
        int turn = 0;
        for (int token = first_token; token < tokens_.end; token += groups_) {
            const int copied = stage == 0 ? stages<pieces_per_thread> - 1 : stage - 1;
            start_copy(token + (stages<pieces_per_thread> - 1) * groups_, copied);
            copy_async_wait<stages<pieces_per_thread> - 1>();
            process_row(token, stage, turn);
            stage = stage == stages<pieces_per_thread> - 1 ? 0 : stage + 1;
            turn = 1 - turn;
        }
        copy_async_wait<0>();
    }

    /// Writes the block's part: the sums of its groups, added in order.
    __device__ void write_part() {
        amax_.merge(shared_.warp_amax, args_.amax);
        block_barrier();
        const int hidden = args_.hidden;
        float* dweight = shared_.totals;
        float* dbias = dweight + groups_ * hidden;
        unrolled<pieces_per_thread>([&](int i) {
            if (!is_mine(i)) return;
            for (int j = 0; j < piece_width<T>; ++j) {
                dweight[group_ * hidden + at(i) + j] = sums_[i].dweight[j];
                dbias[group_ * hidden + at(i) + j] = sums_[i].dbias[j];
            }
        });
        block_barrier();
        float* part = part_of_block(args_);
        for (int h = thread_index(); h < hidden; h += block_threads()) {
            part[h] = sum_of_groups(dweight + h);
            if (args_.with_bias) part[hidden + h] = sum_of_groups(dbias + h);
        }
    }

private:
    __device__ int at(int i) const { return first_ + i * args_.group * piece_width<T>; }
    __device__ bool is_mine(int i) const { return at(i) < args_.hidden; }
    __device__ Vec16<T> load_weight(int i) const {
        return load_piece<true>(args_.weight, at(i), args_.hidden);
    }
    __device__ Vec16<T> weight(int i) const {
        if constexpr (keeps_weight<pieces_per_thread>) return weight_[i];
        return is_mine(i) ? load_weight(i) : Vec16<T>{};
    }
    __device__ Vec16<T>& staged(int stage, int tensor, int i) const {
        return shared_.pieces[stage][tensor][i][thread_index()];
    }

    /// Starts to copy a row, if it exists.
    __device__ void start_copy(int token, int stage) {
        const bool valid = token < tokens_.end;
        const std::int64_t row = std::int64_t{token} * args_.hidden;
        for (int i = 0; i < pieces_per_thread; ++i) {
            const bool mine = valid && is_mine(i);
            copy_async_16(&staged(stage, 0, i), args_.dn + row + at(i), mine);
            copy_async_16(&staged(stage, 1, i), args_.r + row + at(i), mine);
            if constexpr (staged_tensors<pieces_per_thread> == 3) {
                copy_async_16(&staged(stage, 2, i), args_.dr + row + at(i),
                              mine && args_.accumulate);
            }
        }
        copy_async_commit();
    }

    __device__ void process_row(int token, int stage, int turn) {
        NormBackwardRow<T> row(args_, token);
        RowSums of_row = {};
        unrolled<pieces_per_thread>([&](int i) {
            row.add(load(&staged(stage, 0, i)), load(&staged(stage, 1, i)), weight(i), sums_[i],
                    of_row);
        });
        Vec16<T> dr[pieces_per_thread] = {};
        if (staged_tensors<pieces_per_thread> < 3 && args_.accumulate) {
            for (int i = 0; i < pieces_per_thread; ++i) {
                if (is_mine(i))
                    dr[i] = load_piece_once<true>(row.row_of(args_.dr, args_), at(i), 0);
            }
        }
        row.set_row_sums(args_, group_sums(shared_.sums[turn], group_, args_.group, of_row));
        unrolled<pieces_per_thread>([&](int i) {
            Vec16<T> dy = {};
            if (is_mine(i)) {
                if constexpr (staged_tensors<pieces_per_thread> == 3)
                    dr[i] = load(&staged(stage, 2, i));
                dr[i] = row.gradient(load(&staged(stage, 0, i)), load(&staged(stage, 1, i)),
                                     weight(i), dr[i]);
                dy = row.template store_gradient<true>(args_, dropout_, at(i), dr[i], amax_);
            }
            if constexpr (beside == Beside::fp8_rows)
                args_.dy8.store_piece(token, at(i), is_mine(i), dy);
        });
    }

    __device__ float sum_of_groups(const float* of_first) const {
        float sum = of_first[0];
        for (int group = 1; group < groups_; ++group)
            sum = sum + of_first[group * args_.hidden];
        return sum;
    }

    const NormBackwardArgs<T>& args_;
    BackwardShared<T, pieces_per_thread>& shared_;
    FeatureDropout dropout_;
    TokenRange tokens_;
    int group_;
    int groups_;
    int first_;
    Vec16<T> weight_[keeps_weight<pieces_per_thread> ? pieces_per_thread : 1] = {};
    PieceSums<T> sums_[pieces_per_thread] = {};
    RunningAmax<beside == Beside::amax> amax_;
};

template <int pieces_per_thread>
constexpr int blocks_per_multiprocessor = pieces_per_thread == 1 ? 2 : 1;

template <class T, int pieces_per_thread, Beside beside>
__global__ void __launch_bounds__(max_threads, blocks_per_multiprocessor<pieces_per_thread>)
    backward_kernel(NormBackwardArgs<T> args) {
    BackwardThread<T, pieces_per_thread, beside> thread(
        args, shared_memory<BackwardShared<T, pieces_per_thread>>());
    thread.run();
    thread.write_part();
}

// ---- launch -------------------------------------------------------------------------------------

template <class T>
struct BackwardPlan {
    void (*kernel)(NormBackwardArgs<T>) = nullptr;
    std::int64_t shared_bytes = 0;
    int group = 0;
    int groups = 1;
    int blocks_per_multiprocessor = 1;
};

/// The number of threads that handle a row of `pieces` pieces.
int group_for(std::int64_t pieces, int pieces_per_thread) {
    return static_cast<int>(
        round_up(div_ceil(pieces, pieces_per_thread), std::int64_t{warp_threads}));
}

template <class T, Beside beside, int pieces_per_thread>
BackwardPlan<T> short_row_plan(std::int64_t pieces) {
    static_assert(blocks_fit(blocks_per_multiprocessor<pieces_per_thread>,
                             sizeof(BackwardShared<T, pieces_per_thread>),
                             multiprocessor_bytes_a100));
    const int group = group_for(pieces, pieces_per_thread);
    return {.kernel = backward_kernel<T, pieces_per_thread, beside>,
            .shared_bytes = sizeof(BackwardShared<T, pieces_per_thread>),
            .group = group,
            .groups = max_threads / group,
            .blocks_per_multiprocessor = blocks_per_multiprocessor<pieces_per_thread>};
}

template <class T, Beside beside, int threads>
auto* long_rows(bool aligned) {
    if constexpr (beside != Beside::fp8_rows) {
        if (!aligned) return long_row_kernel<T, threads, false, beside>;
    }
    return long_row_kernel<T, threads, true, beside>;
}

template <class T, Beside beside, int threads>
BackwardPlan<T> long_row_plan(bool aligned) {
    return {.kernel = long_rows<T, beside, threads>(aligned),
            .shared_bytes = sizeof(LongRowShared<threads>),
            .group = threads,
            .groups = 1,
            .blocks_per_multiprocessor = 2};
}

/// The number of pieces per thread that minimizes total work: a warp's fixed work per row costs
/// about as much as its work per piece. 0: the row is too long.
int cheapest_pieces_per_thread(std::int64_t pieces) {
    int cheapest = 0;
    for (int pieces_per_thread = 3; pieces_per_thread >= 1; --pieces_per_thread) {
        const int group = group_for(pieces, pieces_per_thread);
        if (group > max_threads) break;
        if (cheapest == 0 ||
            group * (1 + pieces_per_thread) <= group_for(pieces, cheapest) * (1 + cheapest))
            cheapest = pieces_per_thread;
    }
    return cheapest;
}

template <class T, Beside beside>
BackwardPlan<T> backward_plan(std::int64_t hidden, bool aligned) {
    const std::int64_t pieces = div_ceil(hidden, piece_width<T>);
    switch (aligned ? cheapest_pieces_per_thread(pieces) : 0) {
        case 1: return short_row_plan<T, beside, 1>(pieces);
        case 2: return short_row_plan<T, beside, 2>(pieces);
        case 3: return short_row_plan<T, beside, 3>(pieces);
        default:
            return pieces <= warp_threads ? long_row_plan<T, beside, warp_threads>(aligned)
                                          : long_row_plan<T, beside, 256>(aligned);
    }
}

template <class T>
void backward(const ResidualNormBackward& op, const OpContext& context) {
    const std::int64_t tokens = op.r.size(0);
    const std::int64_t hidden = op.r.size(1);
    NormBackwardArgs<T> args = {.dn = op.dn.as<T>(),
                                .r = op.r.as<T>(),
                                .weight = op.norm.weight.as<T>(),
                                .mean = op.norm.rms ? nullptr : op.mean.as<float>(),
                                .rstd = op.rstd.as<float>(),
                                .dr = op.dr.as<T>(),
                                .dy = pointer_or_null<T>(op.dy),
                                .amax = pointer_or_null<float>(op.amax),
                                .dy8 = Fp8Rows(op.dy8),
                                .parts = nullptr,
                                .with_bias = !op.dbias.empty(),
                                .accumulate = op.accumulate,
                                .tokens = static_cast<int>(tokens),
                                .hidden = static_cast<int>(hidden),
                                .seq_length = static_cast<int>(op.seq_length),
                                .inverse_hidden = 1 / static_cast<float>(hidden),
                                .group = 0,
                                .dropout = DropoutParams(op.dropout)};
    const auto whole = [&](const T* row) { return is_aligned(row, hidden, hidden); };
    const bool aligned =
        whole(args.dn) && whole(args.r) && whole(args.dr) && whole(args.dy) && whole(args.weight);
    const BackwardPlan<T> plan = with_beside<T>(args.dy8, args.amax, aligned, [&](auto beside) {
        return backward_plan<T, beside()>(hidden, aligned);
    });
    const std::int64_t parts =
        std::min(norm_blocks(context.device, plan.shared_bytes, plan.blocks_per_multiprocessor),
                 div_ceil(tokens, norm_group_rows * plan.groups));
    args.group = plan.group;
    args.parts = context.scratch.take<float>(parts * (args.with_bias ? 2 : 1) * hidden);
    launch(
        context.stream,
        {.blocks = parts, .threads = plan.group * plan.groups, .shared_bytes = plan.shared_bytes},
        plan.kernel, args);
    add_partial_sums(
        {.data = args.parts,
         .count = parts,
         .columns = hidden,
         .totals = {pointer_or_null<float>(op.dweight), pointer_or_null<float>(op.dbias)}},
        context.stream);
}

}  // namespace

std::int64_t norm_blocks(const DeviceProperties& device, std::int64_t shared_bytes,
                         std::int64_t most) {
    while (most > 1 && !blocks_fit(most, shared_bytes, device.multiprocessor_bytes))
        --most;
    return std::min(most * device.multiprocessors, max_norm_parts);
}

void run(const ResidualNormBackward& args, const OpContext& context) {
    GPTRAIN_CHECK(args.r.rank() == 2 && args.r.size(0) <= INT32_MAX && args.r.size(1) <= INT32_MAX,
                  "norm of ", args.r.shape().to_text());
    with_compute_type(args.r.dtype(), [&](auto type) { backward<decltype(type)>(args, context); });
}

}  // namespace gptrain::cuda
