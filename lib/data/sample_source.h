// What a batch loader reads: a numbered list of samples of S + 1 tokens each.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace gptrain {

/// A sample is S + 1 tokens: the first S are the inputs, the last S the targets. Implementations
/// may be read by several threads at once.
class SampleSource {
public:
    virtual ~SampleSource() = default;

    /// Number of samples.
    virtual std::int64_t size() const = 0;

    /// Writes sample `index` (>= 0) into `tokens` (S + 1 of them) and returns how many of its
    /// tokens are real. All are, but at the end of a source that is read once in order (see
    /// SequentialDataset); what is not real is written as 0.
    virtual std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const = 0;

    /// Where token `offset` of sample `index` comes from, for messages: "P.bin: sequence 3, token
    /// 17".
    virtual std::string place_of(std::int64_t index, std::int64_t offset) const = 0;
};

}  // namespace gptrain
