#include "data/blended_dataset.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/at.h"
#include "base/checked.h"
#include "base/error.h"

namespace gptrain {
namespace {

/// numpy.sum of doubles: in order below 8, in 8 running sums up to 128, by halves above. The order
/// of additions determines the last bit of the weights.
double numpy_sum(std::span<const double> values) {
    const std::size_t size = values.size();
    if (size < 8) {
        double sum = 0;
        for (const double value : values)
            sum += value;
        return sum;
    }
    if (size > 128) {
        const std::size_t half = size / 2 - size / 2 % 8;
        return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
    }
    std::array<double, 8> sums{};
    const std::size_t whole = size - size % 8;
    for (std::size_t i = 0; i < whole; ++i)
        sums[i % 8] += values[i];
    double sum =
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (std::size_t i = whole; i < size; ++i)
        sum += values[i];
    return sum;
}

void normalise(std::vector<double>& weights) {
    const double sum = numpy_sum(weights);
    for (double& weight : weights)
        weight /= sum;
}

/// Fills in each sample's source and its index there, and counts the samples of each source.
/// `counts` starts at 0.
void fill_order(std::span<const double> weights, std::span<std::int16_t> sources,
                std::span<std::int64_t> samples, std::span<std::int64_t> counts) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const double index = std::max(static_cast<double>(i), 1.0);
        std::size_t best = 0;
        double best_share = weights[0] * index - static_cast<double>(counts[0]);
        for (std::size_t source = 1; source < weights.size(); ++source) {
            const double share = weights[source] * index - static_cast<double>(counts[source]);
            if (share > best_share) {
                best_share = share;
                best = source;
            }
        }
        sources[i] = static_cast<std::int16_t>(best);
        samples[i] = counts[best]++;
    }
}

CachedArrays make_order(const Blend& blend, const IndexCache& cache) {
    std::string key = text("BlendedDataset order of ", blend.size, " samples, weights");
    for (const double weight : blend.weights)
        append(key, text(" ", weight));
    const auto sources = static_cast<std::int64_t>(blend.weights.size());
    return CachedArrays(
        cache, "blend", key, {checked_mul(blend.size, 2), checked_mul(blend.size, 8), sources * 8},
        [&](const std::vector<std::span<std::byte>>& arrays) {
            fill_order(blend.weights, elements<std::int16_t>(arrays[0]),
                       elements<std::int64_t>(arrays[1]), elements<std::int64_t>(arrays[2]));
        });
}

}  // namespace

Blend plan_blend(std::span<const double> weights, std::int64_t num_samples) {
    GPTRAIN_CHECK(!weights.empty() && weights.size() < 32767, weights.size(), " sources");
    GPTRAIN_CHECK(num_samples > 0, num_samples);
    Blend blend;
    blend.weights.assign(weights.begin(), weights.end());
    normalise(blend.weights);
    for (const double weight : blend.weights) {
        GPTRAIN_CHECK(weight > 0 && std::isfinite(weight), weight);
        const double target = std::ceil(static_cast<double>(num_samples) * weight);
        blend.requests.push_back(static_cast<std::int64_t>(std::ceil(target * 1.005)));
        blend.size += static_cast<std::int64_t>(target);
    }
    // Megatron normalises once for the requests and again for the order.
    normalise(blend.weights);
    return blend;
}

BlendOrder::BlendOrder(const Blend& blend, const IndexCache& cache)
    : cache_(make_order(blend, cache)) {}

BlendedDataset::BlendedDataset(const Blend& blend, const OpenSource& open, const IndexCache& cache)
    : order_(blend, cache) {
    const auto counts = order_.counts();
    for (std::size_t i = 0; i < blend.weights.size(); ++i) {
        auto source = open(i, blend.requests[i]);
        if (source->size() < counts[i]) source = open(i, counts[i]);
        sources_.push_back(std::move(source));
    }
}

std::int64_t BlendedDataset::size() const {
    return order_.size();
}

std::int64_t BlendedDataset::source_of(std::int64_t index) const {
    GPTRAIN_CHECK(index >= 0 && index < size(), index, " of ", size());
    return at(source_index(), index);
}

const SampleSource& BlendedDataset::samples_of(std::int64_t index) const {
    return *sources_.at(static_cast<std::size_t>(source_of(index)));
}

std::int64_t BlendedDataset::sample_of(std::int64_t index) const {
    return at(source_sample_index(), index);
}

std::int64_t BlendedDataset::sample(std::int64_t index, std::span<std::int32_t> tokens) const {
    return samples_of(index).sample(sample_of(index), tokens);
}

void BlendedDataset::weights(std::int64_t index, std::span<float> weights) const {
    samples_of(index).weights(sample_of(index), weights);
}

std::string BlendedDataset::place_of(std::int64_t index, std::int64_t offset) const {
    return samples_of(index).place_of(sample_of(index), offset);
}

}  // namespace gptrain
