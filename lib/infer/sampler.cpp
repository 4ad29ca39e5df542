#include "infer/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"

namespace gptrain {
namespace {

/// A uniform number in [0, 1) with 53 bits.
double uniform(std::uint64_t seed, const DrawPlace& place) {
    const auto at = static_cast<std::uint64_t>(place.position);
    const PhiloxBlock words =
        philox({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32),
                static_cast<std::uint32_t>(place.sample), static_cast<std::uint32_t>(place.turn)},
               philox_stream(seed, name_hash("sampling"), 0, 0));
    const std::uint64_t bits = (std::uint64_t{words[0]} << 32 | words[1]) >> 11;
    return static_cast<double>(bits) * 0x1p-53;
}

/// The tokens that top_k keeps, likeliest first. Only as many are sorted as are asked for, because
/// the likeliest few mostly have most of the weight.
class RankedTokens {
public:
    RankedTokens(std::span<const float> logits, const SamplingOptions& options)
        : temperature_(options.temperature) {
        tokens_.reserve(logits.size());
        for (const float logit : logits)
            tokens_.push_back({logit, static_cast<std::int32_t>(tokens_.size())});
        const auto limit = static_cast<std::size_t>(options.top_k);
        if (limit != 0 && limit < tokens_.size()) {
            sort(limit);
            tokens_.resize(limit);
        }
        largest_ = std::min_element(tokens_.begin(), tokens_.end(), before)->logit;
        if (std::isinf(largest_)) {  // the others' weights would be NaN, so the first is taken
            sort(1);
            tokens_.resize(1);
        }
    }

    std::size_t size() const { return tokens_.size(); }

    /// The sum of all weights.
    double total() const {
        double sum = 0;
        for (const Token& token : tokens_)
            sum += weight_of(token);
        return sum;
    }

    TokenChance operator[](std::size_t rank) {
        while (rank >= sorted_)
            sort(std::min(std::max(first_sorted, growth * sorted_), tokens_.size()));
        return {tokens_[rank].id, weight_of(tokens_[rank])};
    }

private:
    struct Token {
        float logit;
        std::int32_t id;
    };

    static constexpr std::size_t first_sorted = 64;
    static constexpr std::size_t growth = 8;

    static bool before(const Token& a, const Token& b) {
        return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    }

    std::vector<Token>::iterator place(std::size_t rank) {
        return tokens_.begin() + static_cast<std::ptrdiff_t>(rank);
    }

    /// Sorts the first `count`; the first `sorted_` already are. A heap of few tokens is faster
    /// than nth_element.
    void sort(std::size_t count) {
        if (count <= sorted_) return;
        if (count < tokens_.size()) {
            std::partial_sort(place(sorted_), place(count), tokens_.end(), before);
        } else {
            std::sort(place(sorted_), tokens_.end(), before);
        }
        sorted_ = count;
    }

    double weight_of(const Token& token) const {
        if (std::isinf(largest_)) return 1;
        return std::exp((static_cast<double>(token.logit) - largest_) / temperature_);
    }

    double temperature_;
    double largest_ = 0;
    std::vector<Token> tokens_;
    std::size_t sorted_ = 0;
};

/// The tokens that can be drawn: the first `count`.
struct Kept {
    std::size_t count = 0;
    double weight = 0;  ///< of all of them
};

Kept kept_of(RankedTokens& tokens, const SamplingOptions& options) {
    const bool all = options.top_p >= 1;
    const double enough = all ? 0 : options.top_p * tokens.total();
    Kept kept;
    for (; kept.count < tokens.size(); ++kept.count) {
        const double weight = tokens[kept.count].weight;
        const bool keeps = (all || kept.weight < enough) && weight > 0 && weight >= options.min_p;
        if (kept.count > 0 && !keeps) break;
        kept.weight += weight;
    }
    return kept;
}

void check_logits(std::span<const float> logits) {
    if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); }))
        fail(ExitCode::numerical, "the model's logits contain NaN");
}

/// The token with the largest logit, the first of equal ones.
std::int32_t likeliest(std::span<const float> logits) {
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) -
                                     logits.begin());
}

}  // namespace

void penalize(std::span<float> logits, std::span<const std::int32_t> context, double penalty) {
    if (penalty == 1) return;
    std::vector<bool> seen(logits.size());
    for (const std::int32_t id : context)
        seen[static_cast<std::size_t>(id)] = true;
    const auto factor = static_cast<float>(penalty);
    for (std::size_t id = 0; id < logits.size(); ++id)
        if (seen[id]) logits[id] = logits[id] < 0 ? logits[id] * factor : logits[id] / factor;
}

std::vector<TokenChance> token_chances(std::span<const float> logits,
                                       const SamplingOptions& options) {
    check_logits(logits);
    if (options.temperature == 0) return {{.id = likeliest(logits)}};
    RankedTokens tokens(logits, options);
    const Kept kept = kept_of(tokens, options);
    std::vector<TokenChance> chances;
    for (std::size_t rank = 0; rank < kept.count; ++rank)
        chances.push_back(tokens[rank]);
    return chances;
}

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          const DrawPlace& place) {
    check_logits(logits);
    if (options.temperature == 0) return likeliest(logits);
    RankedTokens tokens(logits, options);
    const bool all = options.top_p >= 1 && options.min_p <= 0;
    const Kept kept =
        all ? Kept{.count = tokens.size(), .weight = tokens.total()} : kept_of(tokens, options);
    double left = uniform(options.seed, place) * kept.weight;
    std::int32_t drawn = 0;
    for (std::size_t rank = 0; rank < kept.count; ++rank) {
        const TokenChance chance = tokens[rank];
        if (chance.weight == 0) break;  // only rounding leads here
        drawn = chance.id;
        left -= chance.weight;
        if (left < 0) break;
    }
    return drawn;
}

}  // namespace gptrain
