// An endless training order: one pass after another over the same sources.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "data/index_cache.h"
#include "data/sample_source.h"

namespace gptrain {

/// True for the passes whose start is printed: 2, 4, 8, ... A step may read many short passes.
constexpr bool announces_pass(std::int64_t pass) {
    return pass > 1 && std::has_single_bit(static_cast<std::uint64_t>(pass));
}

/// Sample i is sample i mod n of pass floor(i / n), n = samples of a pass. Opens a later pass on
/// first use and prints a line about it (announces_pass).
class EndlessDataset final : public SampleSource {
public:
    using OpenPass = std::function<std::shared_ptr<const SampleSource>(std::int64_t pass,
                                                                       const IndexCache& cache)>;

    /// Opens pass 0 now, by `cache`; each rank opens later passes alone. Every pass has at least
    /// `samples_per_pass` samples.
    EndlessDataset(OpenPass open, std::int64_t samples_per_pass, const IndexCache& cache);

    /// The largest index, as there is no end.
    std::int64_t size() const override;
    std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const override;
    void weights(std::int64_t index, std::span<float> weights) const override;
    std::string place_of(std::int64_t index, std::int64_t offset) const override;

private:
    std::shared_ptr<const SampleSource> pass_of(std::int64_t index) const;

    OpenPass open_;
    std::int64_t samples_per_pass_;
    IndexCache cache_;
    mutable std::mutex mutex_;
    mutable std::int64_t pass_ = 0;
    mutable std::shared_ptr<const SampleSource> source_;  ///< of pass_
};

}  // namespace gptrain
