#include "cpu/router_losses.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/step_state.h"
#include "cpu/router_scores.h"
#include "cpu/step.h"

namespace gptrain::cpu {
namespace {

/// Limit of the number of parts whose sums are computed separately. The number depends on the shape
/// only.
constexpr std::int64_t most_parts = 64;

/// Calls f(t, weight) for all tokens of weight other than 0.
void for_tokens(const Tensor& logits, const float* weights, const auto& f) {
    parallel_ranges(logits.size(0), score_cost * logits.size(1), 1,
                    [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t t = begin; t < end; ++t) {
                            if (weights[t] != 0) f(t, weights[t]);
                        }
                    });
}

/// weight factor loss_scale / token_weight_sum
float gradient_factor(float weight, double factor, const StepRef& step) {
    const StepState& state = step_state(step);
    return static_cast<float>(weight * (factor * (state.loss_scale / state.token_weight_sum)));
}

/// BalanceSums over the tokens [begin, end).
void balance_sums(const BalanceSums& args, std::int64_t begin, std::int64_t end, float* shares,
                  double* sums) {
    const std::int64_t experts = args.logits.size(1);
    const std::int64_t per_token = args.chosen.size(1);
    const auto* logits = args.logits.as<float>();
    const auto* chosen = args.chosen.as<std::int32_t>();
    const auto* weights = args.token_weights.as<float>();
    std::fill_n(sums, 2 * experts + 1, 0.0);
    for (std::int64_t t = begin; t < end; ++t) {
        const double weight = weights[t];
        if (weight == 0) continue;
        router_shares(args.rule.score, logits + t * experts, experts, shares);
        for (std::int64_t j = 0; j < per_token; ++j)
            sums[chosen[t * per_token + j]] += weight;
        for (std::int64_t e = 0; e < experts; ++e)
            sums[experts + e] += weight * shares[e];
        sums[2 * experts] += weight;
    }
}

/// The balance loss of a group.
double balance_loss(const double* sums, std::int64_t experts, std::int64_t per_token) {
    const double weight = sums[2 * experts];
    if (weight == 0) return 0;
    const double products = std::inner_product(sums, sums + experts, sums + experts, 0.0);
    return static_cast<double>(experts) / static_cast<double>(per_token) * products / weight;
}

/// The derivatives of the balance loss of a group by Q_e.
void balance_slopes(const double* sums, std::int64_t experts, std::int64_t per_token,
                    float* slopes) {
    const double divisor = static_cast<double>(per_token) * sums[2 * experts];
    for (std::int64_t e = 0; e < experts; ++e) {
        const double slope = static_cast<double>(experts) * sums[e] / divisor;
        slopes[e] = divisor == 0 ? 0 : static_cast<float>(slope);
    }
}

void balance_gradient(const BalanceLoss& args, Scratch& scratch) {
    const std::int64_t experts = args.logits.size(1);
    const std::int64_t group_size = args.logits.size(0) / args.sums.size(0);
    const bool sigmoid = args.rule.score == RouterScore::sigmoid;
    const auto* all_logits = args.logits.as<float>();
    const auto* weights = args.token_weights.as<float>();
    const auto* sums = args.sums.as<double>();
    auto* all_dlogits = args.dlogits.as<float>();
    const ExpertRows rows(experts, 2, scratch);
    const auto add = [&](std::int64_t t, const float* slopes) {
        const float* logits = all_logits + t * experts;
        float* dlogits = all_dlogits + t * experts;
        float* shares = rows[0];
        const Vec8 divisor = router_shares(args.rule.score, logits, experts, shares);
        const Vec8 mean = dot(shares, slopes, experts);
        const Vec8 factor = gradient_factor(weights[t], args.factor, args.step);
        for_vectors(0, experts, [&](std::int64_t e, auto lanes) {
            const Vec8 q = load(shares + e, lanes);
            Vec8 slope = q * (load(slopes + e, lanes) - mean);
            if (sigmoid) slope = slope * (Vec8(1.0f) - q * divisor);
            store(dlogits + e, fma(factor, slope, load(dlogits + e, lanes)), lanes);
        });
    };
    parallel_ranges(args.logits.size(0), score_cost * experts, 1,
                    [&](std::int64_t begin, std::int64_t end) {
                        float* slopes = rows[1];
                        std::int64_t group = -1;
                        for (std::int64_t t = begin; t < end; ++t) {
                            if (weights[t] == 0) continue;
                            if (group != t / group_size) {
                                group = t / group_size;
                                balance_slopes(sums + group * (2 * experts + 1), experts,
                                               args.per_token, slopes);
                            }
                            add(t, slopes);
                        }
                    });
}

}  // namespace

void run(const BalanceSums& args, Scratch& scratch) {
    const std::int64_t experts = args.logits.size(1);
    const std::int64_t groups = args.sums.size(0);
    const std::int64_t width = 2 * experts + 1;
    const std::int64_t size = args.logits.size(0) / groups;
    GPTRAIN_CHECK(size * groups == args.logits.size(0), args.logits.size(0), " tokens in ", groups,
                  " groups");
    const std::int64_t parts = std::clamp<std::int64_t>(most_parts / groups, 1, div_ceil(size, 16));
    auto* sums = args.sums.as<double>();
    double* memory = parts == 1 ? sums : scratch.take<double>(groups * parts * width);
    const ExpertRows rows(experts, 1, scratch);
    parallel_ranges(groups * parts, score_cost * experts * div_ceil(size, parts), 1,
                    [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t i = begin; i < end; ++i) {
                            const std::int64_t first = i / parts * size;
                            const std::int64_t part = i % parts;
                            balance_sums(args, first + size * part / parts,
                                         first + size * (part + 1) / parts, rows[0],
                                         memory + i * width);
                        }
                    });
    if (parts == 1) return;
    std::fill_n(sums, groups * width, 0.0);
    for (std::int64_t i = 0; i < groups * parts; ++i) {
        for (std::int64_t k = 0; k < width; ++k)
            sums[i / parts * width + k] += memory[i * width + k];
    }
}

void run(const BalanceLoss& args, Scratch& scratch) {
    const std::int64_t experts = args.logits.size(1);
    const auto* sums = args.sums.as<double>();
    double loss = 0;
    for (std::int64_t group = 0; group < args.sums.size(0); ++group)
        loss += balance_loss(sums + group * (2 * experts + 1), experts, args.per_token);
    if (!args.loss.empty()) *args.loss.as<double>() += args.part * loss;
    if (!args.dlogits.empty()) balance_gradient(args, scratch);
}

void run(const RouterZLoss& args, Scratch& scratch) {
    const std::int64_t tokens = args.logits.size(0);
    const std::int64_t experts = args.logits.size(1);
    const auto* all_logits = args.logits.as<float>();
    const auto* weights = args.token_weights.as<float>();
    auto* all_dlogits = pointer_or_null<float>(args.dlogits);
    auto* losses = scratch.take<double>(tokens);
    std::fill_n(losses, tokens, 0.0);
    for_tokens(args.logits, weights, [&](std::int64_t t, float weight) {
        const float* logits = all_logits + t * experts;
        const Softmax softmax(logits, experts);
        const double log_sum = softmax.maximum + std::log(static_cast<double>(softmax.sum));
        losses[t] = weight * log_sum * log_sum;
        if (all_dlogits == nullptr) return;
        float* dlogits = all_dlogits + t * experts;
        const Vec8 factor =
            2 * static_cast<float>(log_sum) * gradient_factor(weight, args.factor, args.step);
        for_vectors(0, experts, [&](std::int64_t e, auto lanes) {
            const Vec8 p = softmax.at(logits + e, lanes);
            store(dlogits + e, fma(factor, p, load(dlogits + e, lanes)), lanes);
        });
    });
    if (args.loss.empty()) return;
    *args.loss.as<double>() += args.factor * std::accumulate(losses, losses + tokens, 0.0);
}

void run(const MeasureRouter& args, Scratch& scratch) {
    const std::int64_t tokens = args.logits.size(0);
    const std::int64_t experts = args.logits.size(1);
    const std::int64_t per_token = args.chosen.size(1);
    const auto* logits = args.logits.as<float>();
    const auto* chosen = args.chosen.as<std::int32_t>();
    const auto* weights = args.token_weights.as<float>();
    auto* entropies = scratch.take<double>(tokens);
    std::fill_n(entropies, tokens, 0.0);
    const ExpertRows rows(experts, 1, scratch);
    for_tokens(args.logits, weights, [&](std::int64_t t, float weight) {
        float* shares = rows[0];
        router_shares(args.rule.score, logits + t * experts, experts, shares);
        Vec8 sums = 0.0f;
        for_vectors(0, experts, [&](std::int64_t e, auto lanes) {
            const Vec8 q = load(shares + e, lanes);
            // The logarithm takes no numbers near 0, whose part is small.
            sums = sums + select_less(q, Vec8(1e-37f), Vec8(0.0f), q * log(q));
        });
        entropies[t] = -double{weight} * sums.sum();
    });
    auto* entropy = args.entropy.as<double>();
    auto* counts = pointer_or_null<double>(args.counts);
    auto* weight = pointer_or_null<double>(args.weight);
    for (std::int64_t t = 0; t < tokens; ++t) {
        if (weights[t] == 0) continue;
        entropy[0] += entropies[t];
        entropy[1] += weights[t];
        if (weight != nullptr) *weight += weights[t];
        for (std::int64_t j = 0; counts != nullptr && j < per_token; ++j)
            counts[chosen[t * per_token + j]] += weights[t];
    }
}

void run(const MeasureLoads& args) {
    const std::int64_t experts = args.counts.size(1);
    auto* loads = args.loads.as<double>();
    auto* unused = args.unused.as<double>();
    for (std::int64_t layer = 0; layer < args.counts.size(0); ++layer) {
        const double* counts = args.counts.as<double>() + layer * experts;
        const double sum = std::accumulate(counts, counts + experts, 0.0);
        if (sum == 0) continue;
        const double largest = *std::max_element(counts, counts + experts);
        loads[2 * layer] += largest * static_cast<double>(experts) / sum;
        loads[2 * layer + 1] += 1;
        unused[2 * layer] += static_cast<double>(std::count(counts, counts + experts, 0.0));
        unused[2 * layer + 1] += 1;
    }
}

std::int64_t router_losses_scratch_bytes(std::int64_t tokens, std::int64_t experts, int threads) {
    return std::max(Scratch::bytes_of<double>(tokens),
                    Scratch::bytes_of<double>(most_parts * (2 * experts + 1))) +
           ExpertRows::bytes(experts, 2, threads);
}

}  // namespace gptrain::cpu
