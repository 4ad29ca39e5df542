// A part of an order, cut into windows of another length.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/index_cache.h"
#include "data/window_order.h"

namespace gptrain {

/// Samples [begin, end) of an order.
struct SampleRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// The windows of `order` (length S) that a range of its samples reads, joined and cut into samples
/// of length S'. Every token of them is the input of one sample, except for fewer than S' at the
/// end.
///
/// They are joined as follows. Consecutive windows of `order` stay together in multiples of whole
/// samples (of lcm(S, S') / S windows). The others are joined after all of these, in their order,
/// so text continues in most places. Elsewhere, unrelated text follows the end of a window within a
/// sample, as it follows the end of a document. The samples are shuffled by NumpyRandom(seed).
class RecutOrder final : public WindowOrder {
public:
    /// Maps the indices from `cache`, or builds them there. The range must be enough for
    /// one sample (recut_samples).
    RecutOrder(std::shared_ptr<const WindowOrder> order, SampleRange range, std::int64_t seq_length,
               std::uint64_t seed, const IndexCache& cache);

    std::int64_t size() const override { return std::ssize(shuffled()); }
    std::int64_t seq_length() const override { return seq_length_; }
    std::int64_t window_of(std::int64_t index) const override;
    void read(std::int64_t window, std::int64_t offset,
              std::span<std::int32_t> tokens) const override;
    void read_weights(std::int64_t window, std::int64_t offset,
                      std::span<float> weights) const override;
    std::string place_in(std::int64_t window, std::int64_t offset) const override;
    const std::string& key() const override { return key_; }

private:
    /// A token of `order_`.
    struct Place {
        std::int64_t window;
        std::int64_t offset;
    };
    Place find(std::int64_t token) const;
    /// Calls read(place, part of `out`) for the parts of a window's tokens, from its token `offset`
    /// on, in order.
    template <class T>
    void for_each_part(std::int64_t window, std::int64_t offset, std::span<T> out,
                       const auto& read) const;
    std::span<const std::int64_t> joined() const { return cache_.array<std::int64_t>(0); }
    std::span<const std::int64_t> shuffled() const { return cache_.array<std::int64_t>(1); }

    std::shared_ptr<const WindowOrder> order_;
    std::int64_t seq_length_;
    std::string key_;
    CachedArrays cache_;
};

/// Samples of length `to` in `windows` windows of length `from`.
std::int64_t recut_samples(std::int64_t windows, std::int64_t from, std::int64_t to);

}  // namespace gptrain
