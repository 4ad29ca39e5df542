#include "cuda/ops/router_losses.h"

#include "cuda/device/device.cuh"
#include "cuda/ops/ordered_sum.h"
#include "cuda/ops/router_row.cuh"
#include "cuda/ops/step.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;
constexpr int block_warps = block_size / warp_threads;

LaunchShape warp_per_token(std::int64_t tokens) {
    return {.blocks = div_ceil(tokens, block_warps), .threads = block_size};
}

__device__ inline double gradient_scale(const StepState* state, double factor) {
    return factor * (state->loss_scale / state->token_weight_sum);
}

// ---- balance loss -------------------------------------------------------------------------------

constexpr int loss_threads = 1024;
constexpr int loss_warps = loss_threads / warp_threads;

struct LossShared {
    double sums[loss_warps];
};

/// *loss += part sum of the groups' losses, by one block. Its warps take the groups in turn.
__global__ void __launch_bounds__(loss_threads)
    balance_loss_kernel(const double* sums, std::int64_t groups, int experts, int per_token,
                        double part, double* loss) {
    double total = 0;
    for (std::int64_t group = warp_index(); group < groups; group += loss_warps) {
        const double* counts = sums + group * (2 * experts + 1);
        const double weight = counts[2 * experts];
        if (weight == 0) continue;
        for (int e = lane_index(); e < experts; e += warp_threads)
            total = total + experts * (counts[e] * counts[experts + e]) / (per_token * weight);
    }
    total = block_sum(total, shared_memory<LossShared>().sums);
    if (thread_index() == 0) *loss = *loss + part * total;
}

struct BalanceArgs {
    const StepState* state;
    const float* logits;
    const float* token_weights;
    const double* sums;
    float* dlogits;
    std::int64_t tokens;
    std::int64_t group_tokens;
    int experts;
    int per_token;
    bool softmax;
    double factor;
};

/// The gradient of the share of expert e, for a token of weight 1, is C_e times a factor of the
/// group.
__global__ void __launch_bounds__(block_size) balance_gradient_kernel(BalanceArgs args) {
    const std::int64_t token = std::int64_t{block_index().x} * block_warps + warp_index();
    if (token >= args.tokens) return;
    const float token_weight = load(args.token_weights + token);
    const double* counts = args.sums + token / args.group_tokens * (2 * args.experts + 1);
    const double group_weight = counts[2 * args.experts];
    if (token_weight == 0 || group_weight == 0) return;
    const double scale = gradient_scale(args.state, args.factor) *
                         static_cast<double>(token_weight) * args.experts /
                         (args.per_token * group_weight);
    const auto dshare = [&](int e) { return static_cast<float>(scale * counts[e]); };
    const float* logits = args.logits + token * args.experts;
    float* dlogits = args.dlogits + token * args.experts;
    const ScoreBase base = score_base(logits, args.experts, args.softmax);
    float of_all = 0;
    for (int e = lane_index(); e < args.experts; e += warp_threads)
        of_all = fma(base.share(load(logits + e)), dshare(e), of_all);
    of_all = warp_sum(of_all);
    for (int e = lane_index(); e < args.experts; e += warp_threads) {
        const float logit = load(logits + e);
        const float slope = base.share(logit) * base.slope(logit);
        dlogits[e] = dlogits[e] + slope * (dshare(e) - of_all);
    }
}

// ---- z-loss -------------------------------------------------------------------------------------

struct ZLossArgs {
    const StepState* state;
    const float* logits;
    const float* token_weights;
    double factor;
    double* losses;  ///< of each token; may be null
    float* dlogits;  ///< may be null
    std::int64_t tokens;
    int experts;
};

__global__ void __launch_bounds__(block_size) z_loss_kernel(ZLossArgs args) {
    const std::int64_t token = std::int64_t{block_index().x} * block_warps + warp_index();
    if (token >= args.tokens) return;
    const double weight = load(args.token_weights + token);
    const bool writes_loss = args.losses != nullptr && lane_index() == 0;
    if (weight == 0) {
        if (writes_loss) args.losses[token] = 0;
        return;
    }
    const float* logits = args.logits + token * args.experts;
    const ScoreBase base = score_base(logits, args.experts, true);
    const double log_sum = base.log_sum();
    if (writes_loss) args.losses[token] = args.factor * weight * log_sum * log_sum;
    if (args.dlogits == nullptr) return;
    float* dlogits = args.dlogits + token * args.experts;
    const auto scale =
        static_cast<float>(gradient_scale(args.state, args.factor) * weight * 2 * log_sum);
    for (int e = lane_index(); e < args.experts; e += warp_threads)
        dlogits[e] = dlogits[e] + scale * base.score(load(logits + e));
}

// ---- loads --------------------------------------------------------------------------------------

/// A warp handles a layer.
__global__ void __launch_bounds__(block_size)
    measure_loads_kernel(const double* counts, std::int64_t layers, int experts, double* loads,
                         double* unused) {
    const std::int64_t layer = std::int64_t{block_index().x} * block_warps + warp_index();
    if (layer >= layers) return;
    double sum = 0;
    double largest = 0;
    double zeros = 0;
    for (int e = lane_index(); e < experts; e += warp_threads) {
        const double count = counts[layer * experts + e];
        sum = sum + count;
        largest = count > largest ? count : largest;
        zeros = zeros + (count == 0 ? 1 : 0);
    }
    sum = warp_sum(sum);
    zeros = warp_sum(zeros);
    for (int mask = warp_threads / 2; mask > 0; mask /= 2) {
        const double other = shuffle_xor(largest, mask);
        largest = other > largest ? other : largest;
    }
    if (lane_index() != 0 || sum == 0) return;
    loads[2 * layer] = loads[2 * layer] + largest / (sum / experts);
    loads[2 * layer + 1] = loads[2 * layer + 1] + 1;
    unused[2 * layer] = unused[2 * layer] + zeros;
    unused[2 * layer + 1] = unused[2 * layer + 1] + 1;
}

void check_loss(const Tensor& logits, const Tensor& weights, const Tensor& dlogits) {
    GPTRAIN_CHECK(
        logits.rank() == 2 && logits.contiguous() && weights.elements() == logits.size(0) &&
            (dlogits.empty() || dlogits.shape() == logits.shape()),
        "a loss of ", logits.shape().to_text(), " with weights ", weights.shape().to_text());
}

}  // namespace

void run(const BalanceLoss& args, const OpContext& context) {
    check_loss(args.logits, args.token_weights, args.dlogits);
    const std::int64_t tokens = args.logits.size(0);
    const std::int64_t experts = args.logits.size(1);
    const std::int64_t groups = args.sums.size(0);
    GPTRAIN_CHECK(args.sums.size(1) == 2 * experts + 1 && groups > 0 && tokens % groups == 0,
                  "a balance loss of ", args.logits.shape().to_text(), " by ",
                  args.sums.shape().to_text());
    if (!args.loss.empty()) {
        launch(context.stream,
               {.blocks = 1, .threads = loss_threads, .shared_bytes = sizeof(LossShared)},
               balance_loss_kernel, args.sums.as<double>(), groups, static_cast<int>(experts),
               static_cast<int>(args.per_token), args.part, args.loss.as<double>());
    }
    if (args.dlogits.empty()) return;
    launch(context.stream, warp_per_token(tokens), balance_gradient_kernel,
           BalanceArgs{.state = step_state(args.step),
                       .logits = args.logits.as<float>(),
                       .token_weights = args.token_weights.as<float>(),
                       .sums = args.sums.as<double>(),
                       .dlogits = args.dlogits.as<float>(),
                       .tokens = tokens,
                       .group_tokens = tokens / groups,
                       .experts = static_cast<int>(experts),
                       .per_token = static_cast<int>(args.per_token),
                       .softmax = args.rule.score == RouterScore::softmax,
                       .factor = args.factor});
}

void run(const RouterZLoss& args, const OpContext& context) {
    check_loss(args.logits, args.token_weights, args.dlogits);
    const std::int64_t tokens = args.logits.size(0);
    double* losses = args.loss.empty() ? nullptr : context.scratch.take<double>(tokens);
    launch(context.stream, warp_per_token(tokens), z_loss_kernel,
           ZLossArgs{.state = step_state(args.step),
                     .logits = args.logits.as<float>(),
                     .token_weights = args.token_weights.as<float>(),
                     .factor = args.factor,
                     .losses = losses,
                     .dlogits = pointer_or_null<float>(args.dlogits),
                     .tokens = tokens,
                     .experts = static_cast<int>(args.logits.size(1))});
    if (losses != nullptr) add_in_order(losses, tokens, args.loss.as<double>(), context.stream);
}

void run(const MeasureLoads& args, const OpContext& context) {
    const std::int64_t layers = args.counts.size(0);
    GPTRAIN_CHECK(args.counts.rank() == 2 && args.loads.elements() == 2 * layers &&
                      args.unused.elements() == 2 * layers,
                  "loads of ", args.counts.shape().to_text());
    launch(context.stream, warp_per_token(layers), measure_loads_kernel, args.counts.as<double>(),
           layers, static_cast<int>(args.counts.size(1)), args.loads.as<double>(),
           args.unused.as<double>());
}

}  // namespace gptrain::cuda
