// The references of routers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference.h"

namespace gptrain::reference {
namespace {

using Numbers = std::vector<Bounded>;

double maximum_of(const Array& logits, std::int64_t t) {
    double maximum = -INFINITY;
    for (std::int64_t e = 0; e < logits.size(1); ++e)
        maximum = std::max(maximum, logits(t, e).value);
    return maximum;
}

Bounded sum_of(const Numbers& numbers) {
    Sum sum;
    for (const Bounded& x : numbers)
        sum.add(x);
    return sum.result();
}

/// exp(logit - maximum) of a token's experts.
Numbers exponentials(const Array& logits, std::int64_t t) {
    const Bounded maximum = maximum_of(logits, t);
    Numbers result;
    for (std::int64_t e = 0; e < logits.size(1); ++e)
        result.push_back(exp(logits(t, e) - maximum));
    return result;
}

Numbers divided(Numbers numbers, const Bounded& divisor) {
    for (Bounded& x : numbers)
        x = x / divisor;
    return numbers;
}

Numbers softmax(const Array& logits, std::int64_t t) {
    const Numbers exps = exponentials(logits, t);
    return divided(exps, sum_of(exps));
}

Numbers scores(const RouterRule& rule, const Array& logits, std::int64_t t) {
    if (rule.score == RouterScore::softmax) return softmax(logits, t);
    Numbers result;
    for (std::int64_t e = 0; e < logits.size(1); ++e)
        result.push_back(logistic(logits(t, e)));
    return result;
}

/// A token's shares, and what its scores were divided by.
struct Shares {
    Numbers of;
    Bounded divisor = 1.0;

    Shares(const RouterRule& rule, const Array& logits, std::int64_t t)
        : of(scores(rule, logits, t)) {
        if (rule.score == RouterScore::softmax) return;
        divisor = sum_of(of) + rounded(1e-20);
        of = divided(of, divisor);
    }
};

/// The indices of the `count` largest numbers among the candidates, ascending.
std::vector<std::size_t> largest(const Numbers& numbers, std::vector<std::size_t> candidates,
                                 std::size_t count) {
    std::stable_sort(candidates.begin(), candidates.end(), [&](std::size_t a, std::size_t b) {
        return numbers[a].value > numbers[b].value;
    });
    if (count < candidates.size()) {
        const Bounded& last = numbers[candidates[count - 1]];
        const Bounded& next = numbers[candidates[count]];
        GPTRAIN_CHECK(last.value == next.value || last.value - next.value > last.bound + next.bound,
                      "rounding could change a choice of this case");
    }
    candidates.resize(count);
    std::sort(candidates.begin(), candidates.end());
    return candidates;
}

std::vector<std::size_t> range(std::size_t begin, std::size_t count) {
    std::vector<std::size_t> result(count);
    std::iota(result.begin(), result.end(), begin);
    return result;
}

std::vector<std::size_t> choose(const RouterRule& rule, const Numbers& choice, std::size_t count) {
    const auto groups = static_cast<std::size_t>(rule.groups);
    const std::size_t size = choice.size() / groups;
    Numbers group_sums(groups);
    for (std::size_t group = 0; group < groups; ++group) {
        Sum sum;
        for (const std::size_t e :
             largest(choice, range(group * size, size), std::min<std::size_t>(2, size)))
            sum.add(choice[e]);
        group_sums[group] = sum.result();
    }
    std::vector<std::size_t> candidates;
    for (const std::size_t group :
         largest(group_sums, range(0, groups), static_cast<std::size_t>(rule.kept_groups))) {
        for (const std::size_t e : range(group * size, size))
            candidates.push_back(e);
    }
    return largest(choice, candidates, count);
}

/// The divisor that turns a token's scores into weights without scale.
Bounded weight_divisor(const RouterRule& rule, const Numbers& scores, const Array& chosen,
                       std::int64_t t) {
    if (!rule.normalize) return 1.0;
    Sum sum;
    for (std::int64_t j = 0; j < chosen.size(1); ++j)
        sum.add(scores[static_cast<std::size_t>(chosen.integer(t, j))]);
    return sum.result() + rounded(1e-20);
}

/// dlogits = the gradient by the scores or shares q, given that by q; `divisor` is what scores were
/// divided by.
Numbers through_scores(const RouterRule& rule, const Numbers& q, const Bounded& divisor,
                       const Numbers& gradient, bool shares) {
    const bool sigmoid = rule.score == RouterScore::sigmoid;
    Sum inner;
    for (std::size_t e = 0; e < q.size(); ++e)
        inner.add(q[e] * gradient[e]);
    const Bounded mean = sigmoid && !shares ? Bounded(0.0) : inner.result();
    Numbers result;
    for (std::size_t e = 0; e < q.size(); ++e) {
        const Bounded slope = q[e] * (gradient[e] - mean);
        result.push_back(sigmoid ? slope * (1.0 - q[e] * divisor) : slope);
    }
    return result;
}

bool counts(const Array& token_weights, std::int64_t t) {
    return token_weights(t).value != 0;
}

}  // namespace

// ---- router ----

void router_forward(const RouterRule& rule, const Array& logits, const Array& balance,
                    Array& chosen, Array& weights) {
    for (std::int64_t t = 0; t < chosen.size(0); ++t) {
        const Numbers s = scores(rule, logits, t);
        Numbers choice = s;
        for (std::size_t e = 0; e < choice.size() && !balance.empty(); ++e)
            choice[e] += balance(static_cast<std::int64_t>(e));
        std::int64_t j = 0;
        for (const std::size_t e : choose(rule, choice, static_cast<std::size_t>(chosen.size(1))))
            chosen(t, j++) = static_cast<double>(e);
        const Bounded divisor = weight_divisor(rule, s, chosen, t);
        for (j = 0; j < chosen.size(1); ++j)
            weights(t, j) =
                s[static_cast<std::size_t>(chosen.integer(t, j))] / divisor * rounded(rule.scale);
    }
}

void router_backward(const RouterRule& rule, const Array& logits, const Array& chosen,
                     const Array& dweights, Array& dlogits) {
    for (std::int64_t t = 0; t < chosen.size(0); ++t) {
        const Numbers s = scores(rule, logits, t);
        const Bounded divisor = weight_divisor(rule, s, chosen, t);
        const auto expert = [&](std::int64_t j) {
            return static_cast<std::size_t>(chosen.integer(t, j));
        };
        Sum mean;
        for (std::int64_t j = 0; j < chosen.size(1) && rule.normalize; ++j)
            mean.add(dweights(t, j) * (s[expert(j)] / divisor));
        Numbers dscores(s.size());
        for (std::int64_t j = 0; j < chosen.size(1); ++j)
            dscores[expert(j)] = rounded(rule.scale) / divisor * (dweights(t, j) - mean.result());
        const Numbers gradient = through_scores(rule, s, 1.0, dscores, false);
        for (std::size_t e = 0; e < s.size(); ++e)
            dlogits(t, static_cast<std::int64_t>(e)) = gradient[e];
    }
}

// ---- losses and measures of a router ----

void balance_sums(const RouterRule& rule, const Array& logits, const Array& chosen,
                  const Array& token_weights, Array& sums) {
    const std::int64_t experts = logits.size(1);
    const std::int64_t size = logits.size(0) / sums.size(0);
    for (std::int64_t group = 0; group < sums.size(0); ++group) {
        std::vector<Sum> totals(static_cast<std::size_t>(2 * experts + 1));
        const auto total = [&](std::int64_t i) -> Sum& {
            return totals[static_cast<std::size_t>(i)];
        };
        for (std::int64_t t = group * size; t < (group + 1) * size; ++t) {
            if (!counts(token_weights, t)) continue;
            const Shares shares(rule, logits, t);
            for (std::int64_t j = 0; j < chosen.size(1); ++j)
                total(chosen.integer(t, j)).add(token_weights(t));
            for (std::int64_t e = 0; e < experts; ++e)
                total(experts + e).add(token_weights(t) * shares.of[static_cast<std::size_t>(e)]);
            total(2 * experts).add(token_weights(t));
        }
        for (std::int64_t i = 0; i < sums.size(1); ++i)
            sums(group, i) = total(i).result();
    }
}

void balance_loss(const RouterRule& rule, std::int64_t per_token, const Array& logits,
                  const Array& token_weights, const Array& sums, double part, double gradient_scale,
                  Array& loss, Array& dlogits) {
    const std::int64_t experts = logits.size(1);
    const Bounded ratio = static_cast<double>(experts) / static_cast<double>(per_token);
    Sum total;
    for (std::int64_t group = 0; group < sums.size(0); ++group) {
        Sum products;
        for (std::int64_t e = 0; e < experts; ++e)
            products.add(sums(group, e) * sums(group, experts + e));
        const Bounded weight = sums(group, 2 * experts);
        if (weight.value != 0) total.add(ratio * products.result() / weight);
    }
    if (!loss.empty()) loss(0) += Bounded(part) * total.result();
    for (std::int64_t t = 0; t < logits.size(0) && !dlogits.empty(); ++t) {
        const std::int64_t group = t / (logits.size(0) / sums.size(0));
        const Bounded weight = sums(group, 2 * experts);
        if (!counts(token_weights, t) || weight.value == 0) continue;
        const Shares shares(rule, logits, t);
        Numbers slopes;
        for (std::int64_t e = 0; e < experts; ++e)
            slopes.push_back(ratio * sums(group, e) / weight);
        const Numbers gradient = through_scores(rule, shares.of, shares.divisor, slopes, true);
        for (std::int64_t e = 0; e < experts; ++e)
            dlogits(t, e) +=
                token_weights(t) * rounded(gradient_scale) * gradient[static_cast<std::size_t>(e)];
    }
}

void router_z_loss(const Array& logits, const Array& token_weights, double factor,
                   double gradient_scale, Array& loss, Array& dlogits) {
    Sum total;
    for (std::int64_t t = 0; t < logits.size(0); ++t) {
        if (!counts(token_weights, t)) continue;
        const Numbers exps = exponentials(logits, t);
        const Bounded log_sum = Bounded(maximum_of(logits, t)) + log(sum_of(exps));
        total.add(token_weights(t) * log_sum * log_sum);
        const Numbers p = softmax(logits, t);
        for (std::int64_t e = 0; e < logits.size(1) && !dlogits.empty(); ++e)
            dlogits(t, e) += 2.0 * log_sum * (token_weights(t) * rounded(gradient_scale)) *
                             p[static_cast<std::size_t>(e)];
    }
    if (!loss.empty()) loss(0) += rounded(factor) * total.result();
}

void measure_router(const RouterRule& rule, const Array& logits, const Array& chosen,
                    const Array& token_weights, Array& counts_by_expert, Array& entropy,
                    Array& weight) {
    Sum entropies;
    Sum weights;
    Sum all;
    if (!weight.empty()) all.add(weight(0));
    entropies.add(entropy(0));
    weights.add(entropy(1));
    for (std::int64_t t = 0; t < logits.size(0); ++t) {
        if (!counts(token_weights, t)) continue;
        Sum sum;
        for (const Bounded& q : Shares(rule, logits, t).of) {
            if (q.value > fp32_smallest) sum.add(-q * log(q));
        }
        entropies.add(token_weights(t) * sum.result());
        weights.add(token_weights(t));
        all.add(token_weights(t));
        for (std::int64_t j = 0; j < chosen.size(1) && !counts_by_expert.empty(); ++j)
            counts_by_expert(chosen.integer(t, j)) += token_weights(t);
    }
    entropy(0) = entropies.result();
    entropy(1) = weights.result();
    if (!weight.empty()) weight(0) = all.result();
}

void measure_loads(const Array& counts, Array& loads, Array& unused) {
    for (std::int64_t layer = 0; layer < counts.size(0); ++layer) {
        Sum sum;
        double most = 0;
        double without = 0;
        for (std::int64_t e = 0; e < counts.size(1); ++e) {
            sum.add(counts(layer, e));
            most = std::max(most, counts(layer, e).value);
            if (counts(layer, e).value == 0) ++without;
        }
        if (most == 0) continue;
        loads(layer, 0) += Bounded(most) / (sum.result() / static_cast<double>(counts.size(1)));
        loads(layer, 1) += 1.0;
        unused(layer, 0) += without;
        unused(layer, 1) += 1.0;
    }
}

void update_balance(const Array& counts, double rate, Array& balance) {
    double sum = 0;
    for (const Bounded& count : counts.values())
        sum += count.value;
    for (std::int64_t e = 0; e < counts.size(0); ++e) {
        const double above = counts(e).value * static_cast<double>(counts.size(0)) - sum;
        if (above < 0) balance(e) += rounded(rate);
        if (above > 0) balance(e) += -rounded(rate);
    }
}

}  // namespace gptrain::reference
