#include "infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

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

/// The ids of the `count` largest logits, largest first.
std::vector<std::int32_t> most_likely(std::span<const float> logits, std::size_t count) {
    std::vector<std::int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    const auto before = [&](std::int32_t a, std::int32_t b) {
        const float x = logits[static_cast<std::size_t>(a)];
        const float y = logits[static_cast<std::size_t>(b)];
        return x != y ? x > y : a < b;
    };
    std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
                      before);
    ids.resize(count);
    return ids;
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
    if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); })) {
        fail(ExitCode::numerical, "the model's logits contain NaN");
    }
    const bool greedy = options.temperature == 0;
    const auto limit = static_cast<std::size_t>(options.top_k);
    const std::size_t count =
        greedy ? 1 : (limit == 0 ? logits.size() : std::min(limit, logits.size()));
    const std::vector<std::int32_t> ids = most_likely(logits, count);
    if (greedy) return {{.id = ids.front()}};

    const double largest = logits[static_cast<std::size_t>(ids.front())];
    std::vector<TokenChance> chances;
    double total = 0;
    for (const std::int32_t id : ids) {
        const double logit = logits[static_cast<std::size_t>(id)];
        chances.push_back({id, std::exp((logit - largest) / options.temperature)});
        total += chances.back().weight;
    }
    double kept = 0;
    std::size_t keep = 0;
    while (keep < chances.size() &&
           (keep == 0 || (kept < options.top_p * total && chances[keep].weight >= options.min_p))) {
        kept += chances[keep++].weight;
    }
    chances.resize(keep);
    return chances;
}

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          const DrawPlace& place) {
    const std::vector<TokenChance> chances = token_chances(logits, options);
    double kept = 0;
    for (const TokenChance& chance : chances)
        kept += chance.weight;
    double left = uniform(options.seed, place) * kept;
    for (const TokenChance& chance : chances) {
        left -= chance.weight;
        if (left < 0) return chance.id;
    }
    return chances.back().id;
}

}  // namespace gptrain
