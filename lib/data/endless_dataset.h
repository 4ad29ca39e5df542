// Training order without an end: one pass after the other over the same sources.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "data/sample_source.h"

namespace gptrain {

/// Sample i is sample i mod n of pass floor(i / n), n = samples of a pass. A pass beyond the first
/// is opened when it is first asked for, and said in a line.
class EndlessDataset final : public SampleSource {
public:
    using OpenPass = std::function<std::shared_ptr<const SampleSource>(std::int64_t pass)>;

    /// Opens pass 0 now. A pass gives at least `samples_per_pass` samples.
    EndlessDataset(OpenPass open, std::int64_t samples_per_pass);

    /// The largest index there is.
    std::int64_t size() const override;
    std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const override;
    std::string place_of(std::int64_t index, std::int64_t offset) const override;

private:
    std::shared_ptr<const SampleSource> pass_of(std::int64_t index) const;

    OpenPass open_;
    std::int64_t samples_per_pass_;
    mutable std::mutex mutex_;
    mutable std::int64_t pass_ = 0;
    mutable std::shared_ptr<const SampleSource> source_;  ///< of pass_
};

}  // namespace gptrain
