// Blends several sources in proportion to weights, as Megatron's BlendedDataset (megatron-core
// 0.16.1, core/datasets/blended_dataset.py and helpers.cpp), bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/index_cache.h"
#include "data/sample_source.h"

namespace gptrain {

/// The numbers of samples in a blend and from each of its sources.
struct Blend {
    std::vector<double> weights;         ///< normalised
    std::vector<std::int64_t> requests;  ///< samples asked of each source: ceil(1.005 ceil(n w))
    std::int64_t size = 0;               ///< samples of the blend: the sum of ceil(n w), at least n
};

/// Plans n = num_samples. Weights are positive and finite; their sum is arbitrary.
Blend plan_blend(std::span<const double> weights, std::int64_t num_samples);

/// The order of a blend: sample i comes from the source with the largest deficit
/// w max(i, 1) - (samples taken so far), the first one if tied. Samples of a source come in order.
class BlendOrder {
public:
    /// Maps it from `cache`, or builds it there.
    BlendOrder(const Blend& blend, const IndexCache& cache);

    std::int64_t size() const { return std::ssize(sources()); }
    /// The source of each sample.
    std::span<const std::int16_t> sources() const { return cache_.array<std::int16_t>(0); }
    /// The index of each sample in its source.
    std::span<const std::int64_t> samples() const { return cache_.array<std::int64_t>(1); }
    /// How many samples each source has.
    std::span<const std::int64_t> counts() const { return cache_.array<std::int64_t>(2); }

private:
    CachedArrays cache_;
};

/// The samples of several sources in that order.
class BlendedDataset final : public SampleSource {
public:
    /// Opens source `index` with at least `num_samples` samples.
    using OpenSource = std::function<std::shared_ptr<const SampleSource>(std::size_t index,
                                                                         std::int64_t num_samples)>;

    /// Maps the order from `cache`, or builds it there. If the order needs more samples from
    /// a source than requested (Megatron stops there), it reopens the source with that many.
    BlendedDataset(const Blend& blend, const OpenSource& open, const IndexCache& cache);

    std::int64_t size() const override;
    std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const override;
    void weights(std::int64_t index, std::span<float> weights) const override;
    std::int64_t source_of(std::int64_t index) const override;
    std::string place_of(std::int64_t index, std::int64_t offset) const override;

    std::span<const std::int16_t> source_index() const { return order_.sources(); }
    std::span<const std::int64_t> source_sample_index() const { return order_.samples(); }

private:
    const SampleSource& samples_of(std::int64_t index) const;
    std::int64_t sample_of(std::int64_t index) const;

    BlendOrder order_;
    std::vector<std::shared_ptr<const SampleSource>> sources_;
};

}  // namespace gptrain
