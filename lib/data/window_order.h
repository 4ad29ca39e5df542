// Samples that are windows over one long list of tokens, in shuffled order.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "data/sample_source.h"

namespace gptrain {

/// Window w has the S tokens from token w S on, and the one after them. The S tokens are in no
/// other window. Each of size() samples is another window.
class WindowOrder : public SampleSource {
public:
    virtual std::int64_t seq_length() const = 0;  ///< S
    /// The window that a sample reads.
    virtual std::int64_t window_of(std::int64_t index) const = 0;
    /// Writes tokens of a window, from its token `offset` < S on.
    virtual void read(std::int64_t window, std::int64_t offset,
                      std::span<std::int32_t> tokens) const = 0;
    /// Writes how much these tokens count (SampleSource::weights).
    virtual void read_weights(std::int64_t window, std::int64_t offset,
                              std::span<float> weights) const = 0;
    /// SampleSource::place_of a token of a window.
    virtual std::string place_in(std::int64_t window, std::int64_t offset) const = 0;
    /// The data and settings from which the order was made, as text. Orders with the same key are
    /// equal.
    virtual const std::string& key() const = 0;

    std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
        GPTRAIN_CHECK(static_cast<std::int64_t>(tokens.size()) == seq_length() + 1, tokens.size());
        read(window_of(index), 0, tokens);
        return seq_length() + 1;
    }
    void weights(std::int64_t index, std::span<float> weights) const override {
        GPTRAIN_CHECK(std::ssize(weights) == seq_length() + 1, weights.size());
        read_weights(window_of(index), 0, weights);
    }
    std::string place_of(std::int64_t index, std::int64_t offset) const override {
        return place_in(window_of(index), offset);
    }
};

}  // namespace gptrain
