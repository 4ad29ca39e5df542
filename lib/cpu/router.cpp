#include "cpu/router.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/step_state.h"
#include "cpu/router_scores.h"
#include "cpu/step.h"

namespace gptrain::cpu {
namespace {

/// True if a beats b: NaN counts as less than every number.
bool beats(float a, float b) {
    return a > b || (std::isnan(b) && !std::isnan(a));
}

/// The `count` indices with the largest values, the lower of equals first.
class Largest {
public:
    Largest(const float* values, std::int32_t* indices, std::int64_t count)
        : values_(values), indices_(indices), count_(count) {}

    /// Indices come in ascending order.
    void offer(std::int64_t index) {
        if (size_ == count_ && !beats(values_[index], values_[indices_[size_ - 1]])) return;
        std::int64_t at = size_ < count_ ? size_++ : size_ - 1;
        for (; at > 0 && beats(values_[index], values_[indices_[at - 1]]); --at)
            indices_[at] = indices_[at - 1];
        indices_[at] = static_cast<std::int32_t>(index);
    }
    void sort() const { std::sort(indices_, indices_ + size_); }

private:
    const float* values_;
    std::int32_t* indices_;
    std::int64_t count_;
    std::int64_t size_ = 0;
};

/// The sum of the two largest values, or the only one.
float two_largest(const float* values, std::int64_t count) {
    if (count == 1) return values[0];
    std::int32_t best[2];
    Largest largest(values, best, 2);
    for (std::int64_t i = 0; i < count; ++i)
        largest.offer(i);
    return values[best[0]] + values[best[1]];
}

/// Memory of a thread that chooses.
struct ChoiceMemory {
    float* choice;         ///< c of each expert
    float* group_sums;     ///< [groups]
    std::int32_t* groups;  ///< the kept ones
};

void choose(const RouterRule& rule, std::int64_t experts, const ChoiceMemory& memory,
            std::int32_t* chosen, std::int64_t per_token) {
    const std::int64_t size = experts / rule.groups;
    Largest kept(memory.group_sums, memory.groups, rule.kept_groups);
    for (std::int64_t group = 0; group < rule.groups; ++group) {
        memory.group_sums[group] =
            rule.kept_groups < rule.groups ? two_largest(memory.choice + group * size, size) : 0;
        kept.offer(group);
    }
    kept.sort();
    Largest largest(memory.choice, chosen, per_token);
    for (std::int64_t i = 0; i < rule.kept_groups; ++i) {
        for (std::int64_t e = 0; e < size; ++e)
            largest.offer(memory.groups[i] * size + e);
    }
    largest.sort();
}

/// The divisor that turns the scores of the chosen into weights without scale.
float divisor(const RouterRule& rule, const float* scores, const std::int32_t* chosen,
              std::int64_t per_token) {
    if (!rule.normalize) return 1;
    float sum = 0;
    for (std::int64_t j = 0; j < per_token; ++j)
        sum += scores[chosen[j]];
    return sum + 1e-20f;
}

void check(const RouterRule& rule, std::int64_t experts, std::int64_t per_token) {
    GPTRAIN_CHECK(rule.groups >= 1 && experts % rule.groups == 0 && rule.kept_groups >= 1 &&
                      rule.kept_groups <= rule.groups && per_token >= 1 &&
                      per_token <= experts / rule.groups * rule.kept_groups,
                  per_token, " of ", experts, " experts in ", rule.kept_groups, " of ", rule.groups,
                  " groups");
}

}  // namespace

void run(const RouterForward& args, Scratch& scratch) {
    const std::int64_t experts = args.logits.size(1);
    const std::int64_t per_token = args.chosen.size(1);
    check(args.rule, experts, per_token);
    const auto* logits = args.logits.as<float>();
    const auto* balance = pointer_or_null<float>(args.balance);
    auto* all_chosen = args.chosen.as<std::int32_t>();
    auto* all_weights = args.weights.as<float>();
    const auto scale = static_cast<float>(args.rule.scale);
    const ExpertRows rows(experts, 4, scratch);
    const auto route = [&](std::int64_t t) {
        float* scores = rows[0];
        const ChoiceMemory memory = {.choice = rows[1],
                                     .group_sums = rows[2],
                                     .groups = reinterpret_cast<std::int32_t*>(rows[3])};
        router_scores(args.rule.score, logits + t * experts, experts, scores);
        for_vectors(0, experts, [&](std::int64_t e, auto lanes) {
            const Vec8 s = load(scores + e, lanes);
            store(memory.choice + e, balance == nullptr ? s : s + load(balance + e, lanes), lanes);
        });
        std::int32_t* chosen = all_chosen + t * per_token;
        float* weights = all_weights + t * per_token;
        choose(args.rule, experts, memory, chosen, per_token);
        const float by = divisor(args.rule, scores, chosen, per_token);
        for (std::int64_t j = 0; j < per_token; ++j)
            weights[j] = scores[chosen[j]] / by * scale;
    };
    parallel_ranges(args.logits.size(0), score_cost * experts, 1,
                    [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t t = begin; t < end; ++t)
                            route(t);
                    });
}

void run(const RouterBackward& args, Scratch& scratch) {
    const std::int64_t experts = args.logits.size(1);
    const std::int64_t per_token = args.chosen.size(1);
    const bool sigmoid = args.rule.score == RouterScore::sigmoid;
    const auto* logits = args.logits.as<float>();
    const auto* all_chosen = args.chosen.as<std::int32_t>();
    const auto* all_dweights = args.dweights.as<float>();
    auto* all_dlogits = args.dlogits.as<float>();
    const auto scale = static_cast<float>(args.rule.scale);
    const ExpertRows rows(experts, 2, scratch);
    const auto backward = [&](std::int64_t t) {
        float* scores = rows[0];
        float* dscores = rows[1];
        const std::int32_t* chosen = all_chosen + t * per_token;
        const float* dweights = all_dweights + t * per_token;
        float* dlogits = all_dlogits + t * experts;
        router_scores(args.rule.score, logits + t * experts, experts, scores);
        const float by = divisor(args.rule, scores, chosen, per_token);
        float mean = 0;  // of the gradients by the weights without scale
        for (std::int64_t j = 0; args.rule.normalize && j < per_token; ++j)
            mean += dweights[j] * (scores[chosen[j]] / by);
        std::fill_n(dscores, experts, 0.0f);
        for (std::int64_t j = 0; j < per_token; ++j)
            dscores[chosen[j]] = scale / by * (dweights[j] - mean);
        const Vec8 inner = sigmoid ? 0.0f : dot(scores, dscores, experts);
        for_vectors(0, experts, [&](std::int64_t e, auto lanes) {
            const Vec8 s = load(scores + e, lanes);
            const Vec8 ds = load(dscores + e, lanes);
            store(dlogits + e, s * (sigmoid ? ds * (Vec8(1.0f) - s) : ds - inner), lanes);
        });
    };
    parallel_ranges(args.logits.size(0), score_cost * experts, 1,
                    [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t t = begin; t < end; ++t)
                            backward(t);
                    });
}

void run(const UpdateBalance& args) {
    if (step_state(args.step).skip != Skip::none) return;
    const std::int64_t experts = args.counts.elements();
    const auto* counts = args.counts.as<double>();
    auto* balance = args.balance.as<float>();
    const auto rate = static_cast<float>(args.rate);
    const double sum = std::accumulate(counts, counts + experts, 0.0);
    for (std::int64_t e = 0; e < experts; ++e) {
        // Whole counts times E are exact, unlike their mean.
        const double above = counts[e] * static_cast<double>(experts);
        if (above < sum) balance[e] += rate;
        if (above > sum) balance[e] -= rate;
    }
}

std::int64_t router_scratch_bytes(std::int64_t experts, int threads) {
    return ExpertRows::bytes(experts, 4, threads);
}

}  // namespace gptrain::cpu
