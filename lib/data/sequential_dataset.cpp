#include "data/sequential_dataset.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace gptrain {

SequentialDataset::SequentialDataset(std::shared_ptr<const IndexedDataset> tokens,
                                     std::int64_t seq_length)
    : dataset_(std::move(tokens)),
      name_(dataset_->bin_path().string()),
      num_tokens_(dataset_->num_tokens()),
      seq_length_(seq_length) {
    std::int64_t start = 0;
    for (std::int64_t i = 0; i < dataset_->num_sequences(); ++i) {
        starts_.push_back(start);
        start += dataset_->sequence_length(i);
    }
    starts_.push_back(start);
}

SequentialDataset::SequentialDataset(std::vector<std::int32_t> ids, std::string name,
                                     std::int64_t seq_length)
    : ids_(std::move(ids)),
      name_(std::move(name)),
      num_tokens_(static_cast<std::int64_t>(ids_.size())),
      seq_length_(seq_length) {}

std::int64_t SequentialDataset::size() const {
    return div_ceil(num_targets(), seq_length_);
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
    for (std::size_t sequence = sequence_of(begin); !out.empty(); ++sequence) {
        const std::int64_t count = std::min<std::int64_t>(starts_[sequence + 1] - begin,
                                                          static_cast<std::int64_t>(out.size()));
        dataset_->read(static_cast<std::int64_t>(sequence), begin - starts_[sequence], count,
                       out.data());
        out = out.subspan(static_cast<std::size_t>(count));
        begin += count;
    }
}

std::int64_t SequentialDataset::sample(std::int64_t index, std::span<std::int32_t> tokens) const {
    GPTRAIN_CHECK(static_cast<std::int64_t>(tokens.size()) == seq_length_ + 1, tokens.size());
    std::fill(tokens.begin(), tokens.end(), 0);
    if (index >= size()) return 0;
    const std::int64_t begin = index * seq_length_;
    const std::int64_t real = std::min(seq_length_ + 1, num_tokens_ - begin);
    read_ids(begin, tokens.first(static_cast<std::size_t>(real)));
    return real;
}

std::string SequentialDataset::place_of(std::int64_t index, std::int64_t offset) const {
    const std::int64_t token = index * seq_length_ + offset;
    if (!dataset_) return text(name_, ": token ", token);
    const std::size_t sequence = sequence_of(token);
    return text(name_, ": sequence ", sequence, ", token ", token - starts_[sequence]);
}

}  // namespace gptrain
