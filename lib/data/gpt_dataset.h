// The samples of one token data set in the order of Megatron's GPTDataset (megatron-core 0.16.1,
// core/datasets/gpt_dataset.py), bit for bit for the same seed and number of samples.
//
// S sequence length, T tokens of the range per epoch, n = num_samples:
//   E = the fewest epochs with E T >= n S + 1.
//   A = floor(((E - 1) T - 1) / S) samples precede the last epoch. It is kept separate if E > 1 and
//       n - A < int(0.80 floor((T - 1) / S)).
//   document index: the sequences of the range E times, shuffled as one array; or, with a separate
//       last epoch, E - 1 times, shuffled, then once, shuffled.
//   sample index: row j is the place of token j S in the documents in this order; sample j is the
//       S + 1 tokens from there. There are floor((E T - 1) / S) samples.
//   shuffle index: a permutation of the samples; or of the first A and of the rest, separately.
// One NumpyRandom(seed) makes all shuffles, in this order. ("Document" is Megatron's word; the unit
// here is the sequence.)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/index_cache.h"
#include "data/indexed_dataset.h"
#include "data/split.h"
#include "data/window_order.h"

namespace gptrain {

struct OrderOptions {
    std::uint64_t seed = 1234;
    std::int64_t seq_length = 0;
    std::int64_t num_samples = 0;  ///< at least 1; size() is at least this
};

class GptDataset final : public WindowOrder {
public:
    /// The range must contain a token (check with num_tokens), else Error (bad_input). Maps the
    /// indices from `cache`, or builds them there.
    GptDataset(std::shared_ptr<const IndexedDataset> tokens, SequenceRange range,
               const OrderOptions& options, const IndexCache& cache);

    std::int64_t size() const override;
    std::int64_t seq_length() const override { return seq_length_; }
    /// A row of the sample index.
    std::int64_t window_of(std::int64_t index) const override;
    void read(std::int64_t window, std::int64_t offset,
              std::span<std::int32_t> tokens) const override;
    void read_weights(std::int64_t window, std::int64_t offset,
                      std::span<float> weights) const override;
    std::string place_in(std::int64_t window, std::int64_t offset) const override;
    const std::string& key() const override { return key_; }

    std::span<const std::int32_t> document_index() const { return cache_.array<std::int32_t>(0); }
    /// Rows of the sample index, size() + 1: a position in the document index, and the token offset
    /// there.
    std::span<const std::int64_t> sample_positions() const { return cache_.array<std::int64_t>(1); }
    std::span<const std::int32_t> sample_offsets() const { return cache_.array<std::int32_t>(2); }
    std::span<const std::int64_t> shuffle_index() const { return cache_.array<std::int64_t>(3); }

private:
    struct Place {
        std::int64_t position;
        std::int64_t offset;
    };
    Place place_of_token(std::int64_t window, std::int64_t offset) const;
    /// Calls read(sequence, offset in it, part of `out`) for the parts of a window's tokens, from
    /// its token `offset` on, in order.
    template <class T>
    void for_each_part(std::int64_t window, std::int64_t offset, std::span<T> out,
                       const auto& read) const;
    std::int64_t length_at(std::int64_t position) const;

    std::shared_ptr<const IndexedDataset> tokens_;
    std::int64_t seq_length_;
    std::string key_;
    CachedArrays cache_;
};

/// Samples of the order over a range with that many tokens (at least 1): floor((E T - 1) / S).
std::int64_t samples_in_order(std::int64_t tokens, const OrderOptions& options);

/// Samples that the order gives before those of a separate last epoch; all without one.
std::int64_t samples_before_last_epoch(std::int64_t tokens, const OrderOptions& options);

}  // namespace gptrain
