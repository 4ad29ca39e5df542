#include <cmath>
#include <vector>

#include "reference.h"

namespace gptrain::reference {
namespace {

/// All slopes of a model's heads, as Press et al. publish them (`get_slopes` in their code).
std::vector<double> alibi_slopes(std::int64_t heads) {
    const double power = std::pow(2, std::floor(std::log2(static_cast<double>(heads))));
    std::vector<double> slopes;
    const double base = std::pow(2, -std::pow(2, -(std::log2(power) - 3)));
    for (double n = 1; n <= power; ++n)
        slopes.push_back(std::pow(base, n));
    const double between = std::pow(2, -std::pow(2, -(std::log2(2 * power) - 3)));
    for (double n = 1; std::ssize(slopes) < heads; n += 2)
        slopes.push_back(std::pow(between, n));
    return slopes;
}

/// The score of a pair, and its slope in q k / sqrt(D).
struct Score {
    Bounded value;
    Bounded slope = 1.0;
};

Bounded scaled_product(const AttentionInput& in, std::int64_t b, std::int64_t i, std::int64_t n,
                       std::int64_t j) {
    const std::int64_t dims = in.q.size(3);
    const std::int64_t group = n * in.k.size(2) / in.q.size(2);
    Sum sum;
    for (std::int64_t d = 0; d < dims; ++d)
        sum.add(in.q(b, i, n, d) * in.k(b, j, group, d));
    return sum.result() * rounded(1 / std::sqrt(static_cast<double>(dims)));
}

Score score(const AttentionInput& in, std::int64_t b, std::int64_t i, std::int64_t n,
            std::int64_t j) {
    Score result = {scaled_product(in, b, i, n, j)};
    if (const double cap = in.rule.softcap; cap > 0) {
        const Bounded t = tanh(result.value * rounded(1 / cap));
        result = {t * Bounded(cap), Bounded(1) - t * t};
    }
    if (const Alibi& alibi = in.rule.alibi; alibi.on()) {
        const double slope =
            alibi_slopes(alibi.heads)[static_cast<std::size_t>(alibi.head_begin + n)];
        const std::int64_t distance = in.visibility.q_begin + i - in.visibility.k_begin - j;
        result.value +=
            Bounded(-slope, 8 * fp32_roundoff * slope) * Bounded(static_cast<double>(distance));
    }
    return result;
}

Bounded drop(const AttentionInput& in, const Bounded& x, std::int64_t b, std::int64_t i,
             std::int64_t n, std::int64_t j) {
    return x * in.mask.factor(b, in.visibility.q_begin + i, n, in.visibility.k_begin + j);
}

/// The probabilities of one row of one head; hidden keys have none.
void attend(const AttentionInput& in, std::int64_t b, std::int64_t i, std::int64_t n, Array& o,
            Array& lse) {
    const std::int64_t keys = in.k.size(1);
    const std::int64_t group = n * in.k.size(2) / in.q.size(2);
    std::vector<Bounded> scores(static_cast<std::size_t>(keys));
    double maximum = -INFINITY;
    for (std::int64_t j = 0; j < keys; ++j) {
        if (!in.visibility.sees(b, i, j)) continue;
        scores[static_cast<std::size_t>(j)] = score(in, b, i, n, j).value;
        maximum = std::max(maximum, scores[static_cast<std::size_t>(j)].value);
    }
    Sum sum;
    std::vector<Sum> values(static_cast<std::size_t>(in.q.size(3)));
    for (std::int64_t j = 0; j < keys; ++j) {
        if (!in.visibility.sees(b, i, j)) continue;
        const Bounded e = exp(scores[static_cast<std::size_t>(j)] - Bounded(maximum));
        sum.add(e);
        // The product with v takes its operands in the compute dtype.
        const Bounded kept = drop(in, stored(e, in.q.dtype()), b, i, n, j);
        for (std::int64_t d = 0; d < in.q.size(3); ++d) {
            values[static_cast<std::size_t>(d)].add(kept * in.v(b, j, group, d));
        }
    }
    if (maximum == -INFINITY) {
        lse(b, n, i) = -INFINITY;
        for (std::int64_t d = 0; d < in.q.size(3); ++d)
            o(b, i, n, d) = 0.0;
        return;
    }
    lse(b, n, i) = Bounded(maximum) + log(sum.result());
    for (std::int64_t d = 0; d < in.q.size(3); ++d) {
        o(b, i, n, d) = values[static_cast<std::size_t>(d)].result() / sum.result();
    }
}

/// One array of sums for each gradient.
struct Sums {
    explicit Sums(const Array& array) : into(array.values().size()) {
        for (std::size_t at = 0; at < into.size(); ++at)
            into[at].add(array.values()[at]);
    }
    void add(const Array& like, const Bounded& x, std::int64_t b, std::int64_t s, std::int64_t n,
             std::int64_t d) {
        const std::int64_t row = (b * like.size(1) + s) * like.size(2) + n;
        into[static_cast<std::size_t>(row * like.size(3) + d)].add(x);
    }
    void store(Array& array) const {
        for (std::size_t at = 0; at < into.size(); ++at)
            array.values()[at] = into[at].result();
    }
    std::vector<Sum> into;
};

}  // namespace

bool Visibility::sees(std::int64_t b, std::int64_t i, std::int64_t j) const {
    if (k_begin + j > q_begin + i) return false;
    return first_visible.empty() || k_begin + j >= first_visible.integer(b, i);
}

void attention_forward(const AttentionInput& in, Array& o, Array& lse) {
    for (std::int64_t b = 0; b < in.q.size(0); ++b) {
        for (std::int64_t n = 0; n < in.q.size(2); ++n) {
            for (std::int64_t i = 0; i < in.q.size(1); ++i)
                attend(in, b, i, n, o, lse);
        }
    }
}

void merge_attention(const Array& o, const Array& lse, Array& o_sum, Array& lse_sum) {
    for (std::int64_t b = 0; b < o.size(0); ++b) {
        for (std::int64_t i = 0; i < o.size(1); ++i) {
            for (std::int64_t n = 0; n < o.size(2); ++n) {
                const Bounded before = lse_sum(b, n, i);
                const Bounded added = lse(b, n, i);
                if (added.value == -INFINITY) continue;
                const bool first = before.value == -INFINITY;
                const Bounded larger(std::max(before.value, added.value));
                const Bounded kept = first ? Bounded(0) : exp(before - larger);
                const Bounded share = first ? Bounded(1) : exp(added - larger);
                lse_sum(b, n, i) = first ? added : larger + log(kept + share);
                for (std::int64_t d = 0; d < o.size(3); ++d) {
                    Bounded& sum = o_sum(b, i, n, d);
                    sum = first ? o(b, i, n, d)
                                : (sum * kept + o(b, i, n, d) * share) / (kept + share);
                }
            }
        }
    }
}

void sink_forward(const Array& sinks, Array& o, Array& lse) {
    for (std::int64_t b = 0; b < o.size(0); ++b) {
        for (std::int64_t i = 0; i < o.size(1); ++i) {
            for (std::int64_t n = 0; n < o.size(2); ++n) {
                const Bounded before = lse(b, n, i);
                if (before.value == -INFINITY) {
                    lse(b, n, i) = sinks(n);
                    continue;
                }
                const Bounded larger(std::max(before.value, sinks(n).value));
                const Bounded kept = exp(before - larger);
                const Bounded all = kept + exp(sinks(n) - larger);
                lse(b, n, i) = larger + log(all);
                for (std::int64_t d = 0; d < o.size(3); ++d)
                    o(b, i, n, d) = o(b, i, n, d) * kept / all;
            }
        }
    }
}

void sink_backward(const Array& sinks, const Array& o, const Array& lse, const Array& d_o,
                   Array& dsinks) {
    for (std::int64_t n = 0; n < o.size(2); ++n) {
        Sum sum;
        for (std::int64_t b = 0; b < o.size(0); ++b) {
            for (std::int64_t i = 0; i < o.size(1); ++i) {
                Sum delta;
                for (std::int64_t d = 0; d < o.size(3); ++d)
                    delta.add(d_o(b, i, n, d) * o(b, i, n, d));
                sum.add(exp(sinks(n) - lse(b, n, i)) * delta.result());
            }
        }
        dsinks(n) = dsinks(n) - sum.result();
    }
}

void attention_backward(const AttentionInput& in, const Array& o, const Array& lse,
                        const Array& d_o, Array& dq, Array& dk, Array& dv) {
    const std::int64_t dims = in.q.size(3);
    const Bounded scale = rounded(1 / std::sqrt(static_cast<double>(dims)));
    Sums dq_sums(dq), dk_sums(dk), dv_sums(dv);
    for (std::int64_t b = 0; b < in.q.size(0); ++b) {
        for (std::int64_t n = 0; n < in.q.size(2); ++n) {
            const std::int64_t group = n * in.k.size(2) / in.q.size(2);
            for (std::int64_t i = 0; i < in.q.size(1); ++i) {
                Sum delta;
                for (std::int64_t d = 0; d < dims; ++d)
                    delta.add(d_o(b, i, n, d) * o(b, i, n, d));
                for (std::int64_t j = 0; j < in.k.size(1); ++j) {
                    if (!in.visibility.sees(b, i, j)) continue;
                    const Score of_pair = score(in, b, i, n, j);
                    const Bounded p = exp(of_pair.value - lse(b, n, i));
                    Sum dp;
                    for (std::int64_t d = 0; d < dims; ++d) {
                        dp.add(d_o(b, i, n, d) * in.v(b, j, group, d));
                    }
                    const Bounded ds =
                        p * (drop(in, dp.result(), b, i, n, j) - delta.result()) * of_pair.slope;
                    // GEMMs take their operands in the compute dtype.
                    const Bounded slope = stored(ds, in.q.dtype()) * scale;
                    const Bounded kept = drop(in, stored(p, in.q.dtype()), b, i, n, j);
                    for (std::int64_t d = 0; d < dims; ++d) {
                        dq_sums.add(dq, slope * in.k(b, j, group, d), b, i, n, d);
                        dk_sums.add(dk, slope * in.q(b, i, n, d), b, j, group, d);
                        dv_sums.add(dv, kept * d_o(b, i, n, d), b, j, group, d);
                    }
                }
            }
        }
    }
    dq_sums.store(dq);
    dk_sums.store(dk);
    dv_sums.store(dv);
}

}  // namespace gptrain::reference
