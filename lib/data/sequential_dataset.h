// Every token of a text once, in order, as `gptrain eval` measures it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/sample_source.h"

namespace gptrain {

/// How a text is cut into windows.
enum class Windows {
    /// Windows of S + 1 tokens that overlap by one, so that every token except the first is a
    /// target exactly once. The last window may have fewer real tokens.
    next_tokens,
    /// Windows of S tokens, for masking: each one counts once, and all are real, because they see
    /// what follows them. The last window begins S tokens before the end; what it repeats is not
    /// learned. The text needs at least S tokens.
    whole,
};

/// The windows of a text, in order. Samples beyond the last one have no real tokens.
class SequentialDataset final : public SampleSource {
public:
    /// Reads the sequences of a token data set, one after the other.
    SequentialDataset(std::shared_ptr<const IndexedDataset> tokens, std::int64_t seq_length,
                      Windows windows = Windows::next_tokens);
    /// Reads ids in memory; `name` stands for them in messages. Virtual tokens
    /// are not learned.
    SequentialDataset(std::vector<std::int32_t> ids, std::string name, std::int64_t seq_length,
                      Windows windows = Windows::next_tokens);

    std::int64_t size() const override;
    std::int64_t sample(std::int64_t index, std::span<std::int32_t> tokens) const override;
    void weights(std::int64_t index, std::span<float> weights) const override;
    std::string place_of(std::int64_t index, std::int64_t offset) const override;

    std::int64_t num_tokens() const { return num_tokens_; }
    std::int64_t seq_length() const { return seq_length_; }
    /// Number of targets in all windows: every token, but with next_tokens not the first.
    std::int64_t num_targets() const {
        return windows_ == Windows::whole || num_tokens_ == 0 ? num_tokens_ : num_tokens_ - 1;
    }

private:
    /// The first token of sample `index`.
    std::int64_t begin_of(std::int64_t index) const;
    std::size_t sequence_of(std::int64_t token) const;
    /// Tokens of sample `index` that are real.
    std::int64_t real_tokens(std::int64_t index) const;
    /// Calls read(sequence, offset in it, first token after `begin`, count) for the parts of tokens
    /// [begin, begin + count) of the data set, in order.
    void for_each_part(std::int64_t begin, std::int64_t count, const auto& read) const;
    void read_ids(std::int64_t begin, std::span<std::int32_t> out) const;
    /// Writes to `real` the weights of a data set, from `begin` on.
    void read_weights(std::int64_t begin, std::span<float> real) const;

    std::shared_ptr<const IndexedDataset> dataset_;  ///< null: reads ids_
    std::vector<std::int64_t> starts_;  ///< start of each sequence in the whole text, then the end
    std::vector<std::int32_t> ids_;
    std::string name_;
    std::int64_t num_tokens_ = 0;
    std::int64_t seq_length_ = 0;
    Windows windows_ = Windows::next_tokens;
};

}  // namespace gptrain
