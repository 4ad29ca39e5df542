#include "data/sequential_dataset.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace gptrain {

SequentialDataset::SequentialDataset(std::shared_ptr<const IndexedDataset> tokens,
                                     std::int64_t seq_length, Windows windows)
    : dataset_(std::move(tokens)),
      name_(dataset_->bin_path().string()),
      num_tokens_(dataset_->num_tokens()),
      seq_length_(seq_length),
      windows_(windows) {
    std::int64_t start = 0;
    for (std::int64_t i = 0; i < dataset_->num_sequences(); ++i) {
        starts_.push_back(start);
        start += dataset_->sequence_length(i);
    }
    starts_.push_back(start);
}

SequentialDataset::SequentialDataset(std::vector<std::int32_t> ids, std::string name,
                                     std::int64_t seq_length, Windows windows)
    : ids_(std::move(ids)),
      name_(std::move(name)),
      num_tokens_(static_cast<std::int64_t>(ids_.size())),
      seq_length_(seq_length),
      windows_(windows) {}

std::int64_t SequentialDataset::size() const {
    return div_ceil(num_targets(), seq_length_);
}

std::int64_t SequentialDataset::begin_of(std::int64_t index) const {
    const std::int64_t begin = index * seq_length_;
    if (windows_ == Windows::next_tokens) return begin;
    GPTRAIN_CHECK(num_tokens_ >= seq_length_, num_tokens_, " tokens");
    return std::min(begin, num_tokens_ - seq_length_);
}

/// The sequence that contains token `token` of the text.
std::size_t SequentialDataset::sequence_of(std::int64_t token) const {
    return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), token) -
                                    starts_.begin()) -
           1;
}

void SequentialDataset::read_ids(std::int64_t begin, std::span<std::int32_t> out) const {
    if (!dataset_) {
        std::copy_n(ids_.begin() + begin, out.size(), out.begin());
        return;
    }
    for_each_part(
        begin, std::ssize(out),
        [&](std::int64_t sequence, std::int64_t offset, std::int64_t at, std::int64_t count) {
            dataset_->read(sequence, offset, count, out.data() + at);
        });
}

void SequentialDataset::for_each_part(std::int64_t begin, std::int64_t count,
                                      const auto& read) const {
    std::int64_t at = 0;
    for (std::size_t sequence = sequence_of(begin); at < count; ++sequence) {
        const std::int64_t part = std::min(starts_[sequence + 1] - begin - at, count - at);
        read(static_cast<std::int64_t>(sequence), begin + at - starts_[sequence], at, part);
        at += part;
    }
}

std::int64_t SequentialDataset::real_tokens(std::int64_t index) const {
    return index < size() ? std::min(seq_length_ + 1, num_tokens_ - begin_of(index)) : 0;
}

std::int64_t SequentialDataset::sample(std::int64_t index, std::span<std::int32_t> tokens) const {
    GPTRAIN_CHECK(static_cast<std::int64_t>(tokens.size()) == seq_length_ + 1, tokens.size());
    std::fill(tokens.begin(), tokens.end(), 0);
    const std::int64_t real = real_tokens(index);
    if (real > 0) read_ids(begin_of(index), tokens.first(static_cast<std::size_t>(real)));
    return real;
}

void SequentialDataset::weights(std::int64_t index, std::span<float> weights) const {
    const auto real = weights.first(static_cast<std::size_t>(real_tokens(index)));
    std::fill(weights.begin(), weights.end(), 0.0f);
    std::fill(real.begin(), real.end(), 1.0f);
    if (real.empty()) return;
    const std::int64_t repeated = index * seq_length_ - begin_of(index);
    if (dataset_) {
        read_weights(begin_of(index), real);
    } else {
        const auto ids = ids_.begin() + begin_of(index);
        std::transform(ids, ids + std::ssize(real), real.begin(),
                       [](std::int32_t id) { return id >= 0 ? 1.0f : 0.0f; });
    }
    std::fill_n(real.begin(), repeated, 0.0f);
}

void SequentialDataset::read_weights(std::int64_t begin, std::span<float> real) const {
    for_each_part(
        begin, std::ssize(real),
        [&](std::int64_t sequence, std::int64_t offset, std::int64_t at, std::int64_t count) {
            dataset_->read_weights(
                sequence, offset,
                real.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)));
        });
}

std::string SequentialDataset::place_of(std::int64_t index, std::int64_t offset) const {
    const std::int64_t token = begin_of(index) + offset;
    if (!dataset_) return text(name_, ": token ", token);
    const std::size_t sequence = sequence_of(token);
    return text(name_, ": sequence ", sequence, ", token ", token - starts_[sequence]);
}

}  // namespace gptrain
