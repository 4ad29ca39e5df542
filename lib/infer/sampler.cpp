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
double uniform(std::uint64_t seed, std::int64_t position) {
    const auto at = static_cast<std::uint64_t>(position);
    const PhiloxBlock words =
        philox({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 0, 0},
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

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::int64_t position) {
    if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); })) {
        fail(ExitCode::numerical, "the model's logits contain NaN");
    }
    const bool greedy = options.temperature == 0;
    const auto limit = static_cast<std::size_t>(options.top_k);
    const std::size_t count =
        greedy ? 1 : (limit == 0 ? logits.size() : std::min(limit, logits.size()));
    const std::vector<std::int32_t> ids = most_likely(logits, count);
    if (greedy) return ids.front();

    const double largest = logits[static_cast<std::size_t>(ids.front())];
    std::vector<double> weights;
    for (const std::int32_t id : ids) {
        const double logit = logits[static_cast<std::size_t>(id)];
        weights.push_back(std::exp((logit - largest) / options.temperature));
    }
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    double kept = 0;
    std::size_t keep = 0;
    while (keep < weights.size() && (keep == 0 || kept < options.top_p * total)) {
        kept += weights[keep++];
    }
    double left = uniform(options.seed, position) * kept;
    for (std::size_t i = 0; i + 1 < keep; ++i) {
        left -= weights[i];
        if (left < 0) return ids[i];
    }
    return ids[keep - 1];
}

}  // namespace gptrain
