// Several sources as one, in proportion to weights: Megatron's BlendedDataset (megatron-core
// 0.16.1, core/datasets/blended_dataset.py and helpers.cpp), bit for bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/index_cache.h"
#include "data/sample_source.h"

namespace gptrain {

/// What a blend takes from each source.
struct Blend {
    std::vector<double> weights;         ///< normalised
    std::vector<std::int64_t> requests;  ///< samples to ask of each source: ceil(1.005 ceil(n w))
    std::int64_t size = 0;               ///< samples of the blend: the sum of ceil(n w), at least n
};

/// For n = num_samples. Weights are positive and finite; any sum.
Blend plan_blend(std::span<const double> weights, std::int64_t num_samples);

/// Sample i comes from the source whose share w max(i, 1) - (samples it gave so far) is largest,
/// the first of equals; a source gives its samples in order.
class BlendedDataset final : public SampleSource {
public:
    /// Makes source `index` with at least `num_samples` samples.
    using OpenSource = std::function<std::shared_ptr<const SampleSource>(std::size_t index,
                                                                         std::int64_t num_samples)>;

    /// The order is mapped from `cache_folder`, or built there. Where the order draws more from a
    /// source than its request gives (Megatron stops there), the source is opened anew with that
    /// many.
    BlendedDataset(const Blend& blend, const OpenSource& open,
                   const std::filesystem::path& cache_folder);

    std::int64_t size() const override;
    std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const override;
    std::string place_of(std::int64_t index, std::int64_t offset) const override;

    std::span<const std::int16_t> source_index() const { return cache_.array<std::int16_t>(0); }
    std::span<const std::int64_t> source_sample_index() const {
        return cache_.array<std::int64_t>(1);
    }

private:
    const SampleSource& source_of(std::int64_t index) const;
    std::int64_t sample_of(std::int64_t index) const;

    CachedArrays cache_;
    std::vector<std::shared_ptr<const SampleSource>> sources_;
};

}  // namespace gptrain
