#include "cuda/ops/router.h"

#include "cuda/device/unrolled.cuh"
#include "cuda/ops/router_row.cuh"
#include "cuda/ops/scratch_sizes.h"
#include "cuda/ops/step.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;
constexpr int block_warps = block_size / warp_threads;

/// The rule as kernels need it.
struct Rule {
    bool softmax;
    bool normalize;
    float scale;
    int groups;
    int kept_groups;
};

Rule rule_of(const RouterRule& rule) {
    return {.softmax = rule.score == RouterScore::softmax,
            .normalize = rule.normalize,
            .scale = static_cast<float>(rule.scale),
            .groups = static_cast<int>(rule.groups),
            .kept_groups = static_cast<int>(rule.kept_groups)};
}

/// This warp's token.
__device__ inline std::int64_t warp_token() {
    return std::int64_t{block_index().x} * block_warps + warp_index();
}

LaunchShape warp_per_token(std::int64_t tokens) {
    return {.blocks = div_ceil(tokens, block_warps), .threads = block_size};
}

// ---- choice -------------------------------------------------------------------------------------

// Candidates compare by their ranks: whole numbers in the order of the floats, NaN below all.
constexpr std::uint32_t no_candidate = 0;
constexpr std::uint32_t rank_of_nan = 1;

__device__ inline std::uint32_t rank_of(float x) {
    // -0 becomes 0.
    const std::uint32_t bits = bits_of(x + 0.0f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return rank_of_nan;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
/// Inverse of rank_of.
__device__ inline float ranked(std::uint32_t rank) {
    return float_of((rank & 0x80000000u) != 0 ? rank & 0x7fffffffu : ~rank);
}

template <class U>
__device__ inline U larger(U a, U b) {
    return a < b ? b : a;
}
template <class U>
__device__ inline U smaller(U a, U b) {
    return a < b ? a : b;
}

/// Candidate i of lane l is number 32 i + l.
template <int per_lane>
using Ranks = std::uint32_t[per_lane];

/// Takes the `count` best candidates, of equals the one with the lower number. Bit i of the result
/// says whether this lane's candidate i is one of them.
template <int per_lane>
__device__ inline std::uint64_t choose(Ranks<per_lane>& ranks, int count) {
    std::uint64_t chosen = 0;
    for (int round = 0; round < count; ++round) {
        std::uint64_t best = 0;
        unrolled<per_lane>([&](int i) {
            const auto number = static_cast<std::uint32_t>(i * warp_threads + lane_index());
            best = larger(best, std::uint64_t{ranks[i]} << 32 | (0xffffffffu - number));
        });
        for (int mask = warp_threads / 2; mask > 0; mask /= 2)
            best = larger(best, shuffle_xor(best, mask));
        const auto number = static_cast<int>(0xffffffffu - static_cast<std::uint32_t>(best));
        unrolled<per_lane>([&](int i) {
            if (i * warp_threads + lane_index() != number) return;
            ranks[i] = no_candidate;
            chosen |= std::uint64_t{1} << i;
        });
    }
    return chosen;
}

/// The rank of a group's score.
template <int per_lane>
__device__ inline std::uint32_t group_rank(const Ranks<per_lane>& ranks, int begin, int end) {
    std::uint32_t first = no_candidate;
    std::uint32_t second = no_candidate;
    unrolled<per_lane>([&](int i) {
        const int expert = i * warp_threads + lane_index();
        if (expert < begin || expert >= end) return;
        second = larger(second, smaller(first, ranks[i]));
        first = larger(first, ranks[i]);
    });
    for (int mask = warp_threads / 2; mask > 0; mask /= 2) {
        const std::uint32_t other = shuffle_xor(first, mask);
        second = larger(smaller(first, other), larger(second, shuffle_xor(second, mask)));
        first = larger(first, other);
    }
    return rank_of(end - begin == 1 ? ranked(first) : ranked(first) + ranked(second));
}

/// Leaves only the candidates of the groups that are kept.
template <int per_lane>
__device__ inline void keep_groups(Ranks<per_lane>& ranks, const Rule& rule, int experts) {
    const int size = experts / rule.groups;
    Ranks<per_lane> groups = {};
    for (int group = 0; group < rule.groups; ++group) {
        const std::uint32_t rank = group_rank<per_lane>(ranks, group * size, group * size + size);
        unrolled<per_lane>([&](int i) {
            if (i * warp_threads + lane_index() == group) groups[i] = rank;
        });
    }
    const std::uint64_t kept = choose<per_lane>(groups, rule.kept_groups);
    unrolled<per_lane>([&](int i) {
        const int group = (i * warp_threads + lane_index()) / size;
        const std::uint64_t of_lane = shuffle(kept, group % warp_threads);
        if ((of_lane >> (group / warp_threads) & 1) == 0) ranks[i] = no_candidate;
    });
}

struct RouteArgs {
    const float* logits;
    const float* balance;  ///< may be null
    Rule rule;
    std::int32_t* chosen;
    float* weights;
    std::int64_t tokens;
    int experts;
    int per_token;
};

/// For at most 32 per_lane experts.
template <int per_lane>
__global__ void __launch_bounds__(block_size) route_kernel(RouteArgs args) {
    static_assert(per_lane <= 64);
    const std::int64_t token = warp_token();
    if (token >= args.tokens) return;
    const float* logits = args.logits + token * args.experts;
    const ScoreBase base = score_base(logits, args.experts, args.rule.softmax);
    float scores[per_lane] = {};
    Ranks<per_lane> ranks = {};
    unrolled<per_lane>([&](int i) {
        const int expert = i * warp_threads + lane_index();
        if (expert >= args.experts) return;
        scores[i] = base.score(load(logits + expert));
        const float bias = args.balance == nullptr ? 0.0f : load(args.balance + expert);
        ranks[i] = rank_of(scores[i] + bias);
    });
    if (args.rule.groups > 1) keep_groups<per_lane>(ranks, args.rule, args.experts);
    const std::uint64_t chosen = choose<per_lane>(ranks, args.per_token);
    const auto is_chosen = [&](int i) { return (chosen >> i & 1) != 0; };

    float divisor = 1;
    if (args.rule.normalize) {
        float sum = 0;
        unrolled<per_lane>([&](int i) { sum = sum + (is_chosen(i) ? scores[i] : 0.0f); });
        divisor = warp_sum(sum) + router_tiny;
    }
    int before = 0;
    unrolled<per_lane>([&](int i) {
        const std::uint32_t lanes = ballot(is_chosen(i));
        if (is_chosen(i)) {
            const std::int64_t slot =
                token * args.per_token + before + bits_set(lanes & ((1u << lane_index()) - 1));
            args.chosen[slot] = i * warp_threads + lane_index();
            args.weights[slot] = scores[i] / divisor * args.rule.scale;
        }
        before += bits_set(lanes);
    });
}

// ---- gradient -----------------------------------------------------------------------------------

struct BackwardArgs {
    const float* logits;
    Rule rule;
    const std::int32_t* chosen;
    const float* dweights;
    float* dlogits;
    std::int64_t tokens;
    int experts;
    int per_token;
};

__global__ void __launch_bounds__(block_size) route_backward_kernel(BackwardArgs args) {
    const std::int64_t token = warp_token();
    if (token >= args.tokens) return;
    const Rule& rule = args.rule;
    const float* logits = args.logits + token * args.experts;
    const std::int32_t* chosen = args.chosen + token * args.per_token;
    const float* dweights = args.dweights + token * args.per_token;
    float* dlogits = args.dlogits + token * args.experts;
    const ScoreBase base = score_base(logits, args.experts, rule.softmax);
    float divisor = 1;  // the sum of the chosen scores
    float mean = 0;     // of their gradients, by scores
    if (rule.normalize) {
        float sum = 0;
        for (int j = lane_index(); j < args.per_token; j += warp_threads) {
            const float score = base.score(load(logits + chosen[j]));
            sum = sum + score;
            mean = fma(score, dweights[j], mean);
        }
        divisor = warp_sum(sum) + router_tiny;
        mean = warp_sum(mean) / divisor;
    }
    // The gradient of the score of slot j.
    const auto dscore = [&](int j) { return (dweights[j] - mean) / divisor * rule.scale; };
    float of_all = 0;
    if (rule.softmax) {
        for (int j = lane_index(); j < args.per_token; j += warp_threads)
            of_all = fma(base.score(load(logits + chosen[j])), dscore(j), of_all);
        of_all = warp_sum(of_all);
    }
    for (int e = lane_index(); e < args.experts; e += warp_threads)
        dlogits[e] = rule.softmax ? -base.score(load(logits + e)) * of_all : 0.0f;
    warp_barrier();
    for (int j = lane_index(); j < args.per_token; j += warp_threads) {
        const float logit = load(logits + chosen[j]);
        dlogits[chosen[j]] = base.score(logit) * base.slope(logit) * (dscore(j) - of_all);
    }
}

// ---- balance ------------------------------------------------------------------------------------

constexpr int balance_threads = 1024;

struct BalanceShared {
    double sums[balance_threads / warp_threads];
};

/// By one block.
__global__ void __launch_bounds__(balance_threads)
    update_balance_kernel(const StepState* state, const double* counts, float* balance,
                          std::int64_t experts, float rate) {
    if (state->skip != Skip::none) return;
    double sum = 0;
    for (std::int64_t e = thread_index(); e < experts; e += balance_threads)
        sum = sum + counts[e];
    const double mean =
        block_sum(sum, shared_memory<BalanceShared>().sums) / static_cast<double>(experts);
    for (std::int64_t e = thread_index(); e < experts; e += balance_threads) {
        if (counts[e] < mean) balance[e] = balance[e] + rate;
        if (counts[e] > mean) balance[e] = balance[e] - rate;
    }
}

void check_router(const Tensor& logits, const Tensor& chosen, const Tensor& weights) {
    GPTRAIN_CHECK(
        logits.rank() == 2 && chosen.rank() == 2 && logits.contiguous() && chosen.contiguous() &&
            weights.contiguous() && chosen.size(0) == logits.size(0) &&
            chosen.shape() == weights.shape() && chosen.size(1) <= logits.size(1),
        "a router of ", logits.shape().to_text(), " that chooses ", chosen.shape().to_text());
}

}  // namespace

void check_experts(std::int64_t experts) {
    if (experts <= max_experts) return;
    fail(ExitCode::usage, "the CUDA backend has routers of up to ", max_experts, " experts, not ",
         experts);
}

void run(const RouterForward& args, const OpContext& context) {
    check_router(args.logits, args.chosen, args.weights);
    const RouteArgs route = {.logits = args.logits.as<float>(),
                             .balance = pointer_or_null<float>(args.balance),
                             .rule = rule_of(args.rule),
                             .chosen = args.chosen.as<std::int32_t>(),
                             .weights = args.weights.as<float>(),
                             .tokens = args.logits.size(0),
                             .experts = static_cast<int>(args.logits.size(1)),
                             .per_token = static_cast<int>(args.chosen.size(1))};
    const std::int64_t experts = args.logits.size(1);
    const std::int64_t groups = args.rule.groups;
    check_experts(experts);
    GPTRAIN_CHECK(groups >= 1 && experts % groups == 0 && args.rule.kept_groups <= groups &&
                      args.rule.kept_groups * (experts / groups) >= route.per_token,
                  route.per_token, " of ", experts, " experts in ", args.rule.kept_groups, " of ",
                  groups, " groups");
    const auto kernel = experts <= 64    ? route_kernel<2>
                        : experts <= 256 ? route_kernel<8>
                                         : route_kernel<max_experts / warp_threads>;
    launch(context.stream, warp_per_token(route.tokens), kernel, route);
}

void run(const RouterBackward& args, const OpContext& context) {
    check_router(args.logits, args.chosen, args.dweights);
    launch(context.stream, warp_per_token(args.logits.size(0)), route_backward_kernel,
           BackwardArgs{.logits = args.logits.as<float>(),
                        .rule = rule_of(args.rule),
                        .chosen = args.chosen.as<std::int32_t>(),
                        .dweights = args.dweights.as<float>(),
                        .dlogits = args.dlogits.as<float>(),
                        .tokens = args.logits.size(0),
                        .experts = static_cast<int>(args.logits.size(1)),
                        .per_token = static_cast<int>(args.chosen.size(1))});
}

void run(const UpdateBalance& args, const OpContext& context) {
    GPTRAIN_CHECK(args.counts.elements() == args.balance.elements(), "balance of ",
                  args.balance.shape().to_text(), " by ", args.counts.shape().to_text());
    launch(context.stream,
           {.blocks = 1, .threads = balance_threads, .shared_bytes = sizeof(BalanceShared)},
           update_balance_kernel, step_state(args.step), args.counts.as<double>(),
           args.balance.as<float>(), args.balance.elements(), static_cast<float>(args.rate));
}

}  // namespace gptrain::cuda
