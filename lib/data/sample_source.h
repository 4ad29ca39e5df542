// The source of a batch loader: numbered samples of S + 1 tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace gptrain {

/// A sample is S + 1 tokens: the first S are the inputs, the last S the targets. Implementations
/// must allow concurrent reads.
class SampleSource {
public:
    virtual ~SampleSource() = default;

    /// Number of samples.
    virtual std::int64_t size() const = 0;

    /// Writes sample `index` (>= 0) to `tokens` (S + 1 of them) and returns the number of real
    /// ones. All are, except at the end of a source that is read once in order (SequentialDataset);
    /// the others are 0.
    virtual std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const = 0;

    /// Writes for each of the S + 1 tokens of sample `index` how much its loss counts: 1, a weight
    /// above 0 and below 1 (token_weights.h), or 0 if a loss mask excludes it, or if it is not
    /// real.
    virtual void weights(std::int64_t index, std::span<float> weights) const = 0;

    /// The index of a sample's source among the blended ones.
    virtual std::int64_t source_of(std::int64_t /*index*/) const { return 0; }

    /// The origin of token `offset` of sample `index`, for messages: "P.bin: sequence 3, token 17".
    virtual std::string place_of(std::int64_t index, std::int64_t offset) const = 0;
};

}  // namespace gptrain
