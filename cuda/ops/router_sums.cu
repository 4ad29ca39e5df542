// Sums over tokens of a router: each block adds those of some tokens, then the blocks' are added.
#include "cuda/device/device.cuh"
#include "cuda/ops/router.h"
#include "cuda/ops/router_losses.h"
#include "cuda/ops/router_row.cuh"
#include "cuda/ops/scratch_sizes.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;
constexpr int block_warps = block_size / warp_threads;
/// Tokens that a block has in shared memory.
constexpr int chunk = 16;

/// A row of sums is [C_0 .. C_{E-1}, Q_0 .. Q_{E-1}, W] for the balance loss and
/// [C_0 .. C_{E-1}, entropy, W] for what is measured.
struct SumsArgs {
    const float* logits;
    const std::int32_t* chosen;
    const float* token_weights;
    int experts;
    int per_token;
    bool softmax;
    std::int64_t group_tokens;
    std::int64_t parts;  ///< of a group
    double* sums;        ///< [groups][parts][columns]
};

constexpr int columns_of(int experts, bool balance) {
    return balance ? 2 * experts + 1 : experts + 2;
}

struct SumsShared {
    double sums[columns_of(max_experts, true)];
    ScoreBase bases[chunk];
    float weights[chunk];
    float entropies[chunk];
};

/// The sum of -q log q.
__device__ inline float entropy_of(const float* logits, int experts, const ScoreBase& base) {
    float sum = 0;
    for (int e = lane_index(); e < experts; e += warp_threads) {
        const float q = base.share(load(logits + e));
        // 0 log 0 is 0. NaN stays.
        if (q != 0) sum = sum - q * logarithm(q);
    }
    return warp_sum(sum);
}

__device__ inline bool chose(const std::int32_t* chosen, int per_token, int expert) {
    bool found = false;
    for (int j = 0; j < per_token; ++j)
        found = found || chosen[j] == expert;
    return found;
}

/// A warp handles a token at a time, then a thread the same column of all tokens.
template <bool balance>
__global__ void __launch_bounds__(block_size, 2) token_sums_kernel(SumsArgs args) {
    auto& shared = shared_memory<SumsShared>();
    const int columns = columns_of(args.experts, balance);
    const std::int64_t group = block_index().x / args.parts;
    const std::int64_t part = block_index().x % args.parts;
    const std::int64_t first = group * args.group_tokens;
    const std::int64_t end = first + args.group_tokens * (part + 1) / args.parts;
    for (int column = thread_index(); column < columns; column += block_size)
        shared.sums[column] = 0;
    for (std::int64_t begin = first + args.group_tokens * part / args.parts; begin < end;
         begin += chunk) {
        const int count = end - begin < chunk ? static_cast<int>(end - begin) : chunk;
        block_barrier();
        for (int i = warp_index(); i < count; i += block_warps) {
            const float weight = load(args.token_weights + begin + i);
            const float* logits = args.logits + (begin + i) * args.experts;
            ScoreBase base = {};
            float entropy = 0;
            if (weight != 0) {
                base = score_base(logits, args.experts, args.softmax);
                if (!balance) entropy = entropy_of(logits, args.experts, base);
            }
            if (lane_index() != 0) continue;
            shared.bases[i] = base;
            shared.weights[i] = weight;
            shared.entropies[i] = entropy;
        }
        block_barrier();
        for (int column = thread_index(); column < columns; column += block_size) {
            double sum = shared.sums[column];
            for (int i = 0; i < count; ++i) {
                const double weight = shared.weights[i];
                if (weight == 0) continue;
                const std::int64_t token = begin + i;
                if (column < args.experts) {
                    const std::int32_t* chosen = args.chosen + token * args.per_token;
                    if (chose(chosen, args.per_token, column)) sum = sum + weight;
                } else if (column == columns - 1) {
                    sum = sum + weight;
                } else if (balance) {
                    const float logit =
                        load(args.logits + token * args.experts + column - args.experts);
                    sum = sum + weight * static_cast<double>(shared.bases[i].share(logit));
                } else {
                    sum = sum + weight * static_cast<double>(shared.entropies[i]);
                }
            }
            shared.sums[column] = sum;
        }
    }
    double* to = args.sums + block_index().x * std::int64_t{columns};
    for (int column = thread_index(); column < columns; column += block_size)
        to[column] = shared.sums[column];
}

// ---- sums of the parts --------------------------------------------------------------------------

/// Where the sums go.
struct Totals {
    double* balance = nullptr;  ///< [groups, columns], =; the others are not used with it
    double* counts = nullptr;   ///< [E], +=; or null
    double* entropy = nullptr;  ///< [2], +=
    double* weight = nullptr;   ///< [1], +=; or null

    __device__ void add(std::int64_t group, int column, int columns, double sum) const {
        if (balance != nullptr) {
            balance[group * columns + column] = sum;
            return;
        }
        const int experts = columns - 2;
        if (column >= experts) {
            entropy[column - experts] = entropy[column - experts] + sum;
        } else if (counts != nullptr) {
            counts[column] = counts[column] + sum;
        }
        if (column == columns - 1 && weight != nullptr) *weight = *weight + sum;
    }
};

struct PartsShared {
    double sums[block_warps][warp_threads];
};

/// A block handles 32 columns of a group. Each of its warps adds every eighth part.
__global__ void __launch_bounds__(block_size)
    add_parts_kernel(const double* sums, std::int64_t parts, int columns, Totals totals) {
    auto& shared = shared_memory<PartsShared>();
    const int strips = (columns + warp_threads - 1) / warp_threads;
    const std::int64_t group = block_index().x / strips;
    const int column = block_index().x % strips * warp_threads + lane_index();
    const double* from = sums + group * parts * columns + column;
    double sum = 0;
    for (std::int64_t part = warp_index(); part < parts && column < columns; part += block_warps)
        sum = sum + from[part * columns];
    shared.sums[warp_index()][lane_index()] = sum;
    block_barrier();
    if (warp_index() != 0 || column >= columns) return;
    for (int warp = 1; warp < block_warps; ++warp)
        sum = sum + shared.sums[warp][lane_index()];
    totals.add(group, column, columns, sum);
}

void check_sums(const Tensor& logits, const Tensor& chosen, const Tensor& weights,
                std::int64_t groups) {
    GPTRAIN_CHECK(logits.rank() == 2 && chosen.rank() == 2 && logits.contiguous() &&
                      chosen.contiguous() && chosen.size(0) == logits.size(0) &&
                      weights.elements() == logits.size(0) && groups > 0 &&
                      logits.size(0) % groups == 0,
                  "sums of ", groups, " groups of ", logits.shape().to_text(), " that chose ",
                  chosen.shape().to_text());
    check_experts(logits.size(1));
}

template <bool balance, class Op>
void add_tokens(const Op& op, std::int64_t groups, const Totals& totals, const OpContext& context) {
    check_sums(op.logits, op.chosen, op.token_weights, groups);
    SumsArgs args = {.logits = op.logits.template as<float>(),
                     .chosen = op.chosen.template as<std::int32_t>(),
                     .token_weights = op.token_weights.template as<float>(),
                     .experts = static_cast<int>(op.logits.size(1)),
                     .per_token = static_cast<int>(op.chosen.size(1)),
                     .softmax = op.rule.score == RouterScore::softmax,
                     .group_tokens = op.logits.size(0) / groups,
                     .parts = router_parts(op.logits.size(0), groups),
                     .sums = totals.balance};
    const int columns = columns_of(args.experts, balance);
    const bool direct = balance && args.parts == 1;
    if (!direct) args.sums = context.scratch.take<double>(groups * args.parts * columns);
    launch(
        context.stream,
        {.blocks = groups * args.parts, .threads = block_size, .shared_bytes = sizeof(SumsShared)},
        token_sums_kernel<balance>, args);
    if (direct) return;
    launch(context.stream,
           {.blocks = groups * div_ceil(columns, warp_threads),
            .threads = block_size,
            .shared_bytes = sizeof(PartsShared)},
           add_parts_kernel, args.sums, args.parts, columns, totals);
}

}  // namespace

void run(const BalanceSums& args, const OpContext& context) {
    add_tokens<true>(args, args.sums.size(0), {.balance = args.sums.as<double>()}, context);
}

void run(const MeasureRouter& args, const OpContext& context) {
    add_tokens<false>(args, 1,
                      {.counts = pointer_or_null<double>(args.counts),
                       .entropy = args.entropy.as<double>(),
                       .weight = pointer_or_null<double>(args.weight)},
                      context);
}

}  // namespace gptrain::cuda
