#include "data/recut_order.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/at.h"
#include "base/checked.h"
#include "data/numpy_shuffle.h"

namespace gptrain {
namespace {

/// True for each window that the range reads.
std::vector<bool> windows_of(const WindowOrder& order, SampleRange range) {
    std::vector<bool> windows(static_cast<std::size_t>(order.size()));
    for (std::int64_t index = range.begin; index < range.end; ++index)
        at(windows, order.window_of(index)) = true;
    return windows;
}

/// Calls `use(begin, end)` for each run of these windows.
void for_each_run(const std::vector<bool>& windows, const auto& use) {
    const auto begin = windows.begin();
    for (auto first = std::find(begin, windows.end(), true); first != windows.end();) {
        const auto last = std::find(first, windows.end(), false);
        use(first - begin, last - begin);
        first = std::find(last, windows.end(), true);
    }
}

/// `unit`: windows that make whole samples.
void fill_joined(std::span<std::int64_t> joined, const std::vector<bool>& windows,
                 std::int64_t unit) {
    const auto whole = [&](std::int64_t begin, std::int64_t end) {
        return (end - begin) / unit * unit;
    };
    std::int64_t rest = 0;  // where it starts
    for_each_run(windows, [&](std::int64_t begin, std::int64_t end) { rest += whole(begin, end); });
    auto next = joined.begin();
    auto next_rest = joined.begin() + rest;
    for_each_run(windows, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t kept = begin + whole(begin, end);
        for (std::int64_t window = begin; window < end; ++window)
            *(window < kept ? next++ : next_rest++) = window;
    });
}

CachedArrays make_indices(const WindowOrder& order, SampleRange range, std::int64_t seq_length,
                          std::uint64_t seed, const std::string& key, const IndexCache& cache) {
    const std::int64_t count = range.end - range.begin;
    GPTRAIN_CHECK(range.begin >= 0 && count > 0 && range.end <= order.size(), range.begin, " to ",
                  range.end, " of ", order.size());
    const std::int64_t samples = recut_samples(count, order.seq_length(), seq_length);
    GPTRAIN_CHECK(samples > 0, count, " samples of ", order.seq_length());
    return CachedArrays(cache, "recut", key, {checked_mul(count, 8), checked_mul(samples, 8)},
                        [&](const std::vector<std::span<std::byte>>& arrays) {
                            const std::int64_t length = order.seq_length();
                            fill_joined(elements<std::int64_t>(arrays[0]), windows_of(order, range),
                                        std::lcm(length, seq_length) / length);
                            const auto shuffled = elements<std::int64_t>(arrays[1]);
                            std::iota(shuffled.begin(), shuffled.end(), std::int64_t{0});
                            NumpyRandom(seed).shuffle(shuffled);
                        });
}

}  // namespace

std::int64_t recut_samples(std::int64_t windows, std::int64_t from, std::int64_t to) {
    return checked_mul(windows, from) / to;
}

RecutOrder::RecutOrder(std::shared_ptr<const WindowOrder> order, SampleRange range,
                       std::int64_t seq_length, std::uint64_t seed, const IndexCache& cache)
    : order_(std::move(order)),
      seq_length_(seq_length),
      key_(text("samples of ", seq_length, " tokens, seed ", seed, ", of samples ", range.begin,
                "-", range.end, " of ", order_->key())),
      cache_(make_indices(*order_, range, seq_length, seed, key_, cache)) {}

std::int64_t RecutOrder::window_of(std::int64_t index) const {
    GPTRAIN_CHECK(index >= 0 && index < size(), index, " of ", size());
    return at(shuffled(), index);
}

RecutOrder::Place RecutOrder::find(std::int64_t token) const {
    const std::int64_t length = order_->seq_length();
    const auto at = static_cast<std::size_t>(token / length);
    GPTRAIN_CHECK(at < joined().size(), token);
    return {joined()[at], token % length};
}

template <class T>
void RecutOrder::for_each_part(std::int64_t window, std::int64_t offset, std::span<T> out,
                               const auto& read) const {
    // A window's last token, a target only, is the one that follows in the same text.
    const bool to_the_end = offset + std::ssize(out) > seq_length_;
    for (std::int64_t token = window * seq_length_ + offset; !out.empty();) {
        const Place place = find(token);
        const std::int64_t left = order_->seq_length() - place.offset;
        const bool with_next = to_the_end && std::ssize(out) == left + 1;
        const std::int64_t count = with_next ? left + 1 : std::min(left, std::ssize(out));
        read(place, out.first(static_cast<std::size_t>(count)));
        out = out.subspan(static_cast<std::size_t>(count));
        token += count;
    }
}

void RecutOrder::read(std::int64_t window, std::int64_t offset,
                      std::span<std::int32_t> tokens) const {
    for_each_part(window, offset, tokens, [&](const Place& place, std::span<std::int32_t> part) {
        order_->read(place.window, place.offset, part);
    });
}

void RecutOrder::read_weights(std::int64_t window, std::int64_t offset,
                              std::span<float> weights) const {
    for_each_part(window, offset, weights, [&](const Place& place, std::span<float> part) {
        order_->read_weights(place.window, place.offset, part);
    });
}

std::string RecutOrder::place_in(std::int64_t window, std::int64_t offset) const {
    // The last token of a window is found with the one before it.
    const std::int64_t back = offset == seq_length_ ? 1 : 0;
    const Place place = find(window * seq_length_ + offset - back);
    return order_->place_in(place.window, place.offset + back);
}

}  // namespace gptrain
