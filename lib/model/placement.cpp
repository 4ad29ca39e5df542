#include "model/placement.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "model/ownership.h"

namespace gptrain {

void FlatMap::add(const FlatRange& range, const BufferPlace& place) {
    if (range.elements() > 0) entries_.emplace(range.begin, Entry{range.end, place});
}

const FlatMap::Entry* FlatMap::find(const FlatRange& range, std::int64_t& begin) const {
    const auto after = entries_.upper_bound(range.begin);
    if (after == entries_.begin()) return nullptr;
    const auto& [first, entry] = *std::prev(after);
    begin = first;
    return range.end <= entry.end ? &entry : nullptr;
}

bool FlatMap::has(const FlatRange& range) const {
    std::int64_t begin = 0;
    return find(range, begin) != nullptr;
}

BufferPlace FlatMap::of(const FlatRange& range) const {
    std::int64_t begin = 0;
    const Entry* const entry = find(range, begin);
    GPTRAIN_CHECK(entry != nullptr, "positions ", range.begin, " to ", range.end,
                  " of the flat order are not here");
    return {entry->place.window, entry->place.begin + range.begin - begin};
}

Placement whole_placement(const ParameterLayout& layout) {
    Placement placement;
    placement.weight_elements = layout.elements;
    placement.grad_elements = layout.trained;
    placement.weights.add({0, layout.elements}, {});
    placement.grads.add({0, layout.trained}, {});
    placement.kept_weights = placement.weights;
    placement.kept_grads = placement.grads;
    return placement;
}

namespace {

/// Gives units their windows: blocks two of them, or one each; embedding and head one each, or
/// together.
class WindowBuilder {
public:
    WindowBuilder(const ParameterLayout& layout, bool blocks_share, bool ends_share)
        : layout_(layout), blocks_share_(blocks_share), ends_share_(ends_share) {
        std::size_t units = 0;
        for (const ChunkRange& chunk : layout.chunks)
            units += chunk.units();
        sizes_.resize(units);
    }

    void add(const Bucket& bucket) {
        offsets_.emplace_back(bucket, sizes_[bucket.unit]);
        sizes_[bucket.unit] += bucket.elements();
    }

    /// Places all buckets.
    UnitWindows place(FlatMap& map) const {
        UnitWindows windows;
        windows.of_unit.resize(sizes_.size());
        std::map<int, std::int64_t> lengths;
        for (std::size_t index = 0; index < layout_.chunks.size(); ++index) {
            const ChunkRange& chunk = layout_.chunks[index];
            const auto use = [&](std::size_t unit, int window) {
                if (sizes_[unit] == 0) return;
                windows.of_unit[unit] = window;
                lengths[window] = std::max(lengths[window], sizes_[unit]);
            };
            use(chunk.embedding_unit(), 0);
            use(chunk.head_unit(), ends_share_ ? 0 : 1);
            for (std::size_t layer = 0; layer < chunk.blocks.size(); ++layer) {
                const std::size_t own = chunk.first_unit + layer;
                use(chunk.block_unit(layer),
                    static_cast<int>(2 + (blocks_share_ ? layer % 2 : own)));
            }
        }
        std::map<int, std::int64_t> begins;
        for (const auto& [window, length] : lengths) {
            begins[window] = windows.elements;
            windows.elements += length;
            windows.count = window + 1;
        }
        for (const auto& [bucket, offset] : offsets_)
            map.add(bucket, {true, begins[*windows.of_unit[bucket.unit]] + offset});
        return windows;
    }

private:
    const ParameterLayout& layout_;
    bool blocks_share_;
    bool ends_share_;
    std::vector<std::int64_t> sizes_;  ///< of units
    std::vector<std::pair<Bucket, std::int64_t>> offsets_;
};

/// The ranges of a bucket that this rank owns.
std::vector<FlatRange> own_parts(const ParameterLayout& layout, const Bucket& bucket,
                                 const Mesh& mesh) {
    const Owner owner = owner_of(bucket.sharing, mesh);
    if (bucket.whole) return whole_runs(layout, bucket, owner.rank);
    return {part_of_bucket(bucket, owner.rank, owner.ranks)};
}

/// Keeps the owned ranges of a bucket one after the other, each aligned as it is in the flat order.
void keep(const std::vector<FlatRange>& parts, FlatMap& map, std::int64_t& end) {
    constexpr std::int64_t alignment = 64;
    for (const FlatRange& part : parts) {
        const std::int64_t begin = round_up(end, alignment) + part.begin % alignment;
        map.add(part, {false, begin});
        end = begin + part.elements();
    }
    end = round_up(end, alignment);
}

}  // namespace

Placement divided_placement(const ParameterLayout& layout, const Mesh& mesh,
                            const DividedState& divided) {
    Placement placement = whole_placement(layout);
    placement.grads = placement.kept_grads = {};
    placement.grad_elements = 0;
    WindowBuilder grads(layout, true, !layout.head_adds_to_embedding);
    for (const Bucket& bucket : layout.buckets) {
        keep(own_parts(layout, bucket, mesh), placement.kept_grads, placement.grad_elements);
        grads.add(bucket);
    }
    placement.grad_windows = grads.place(placement.grads);
    if (!divided.weights) return placement;

    placement.weights = placement.kept_weights = {};
    placement.weight_elements = 0;
    WindowBuilder weights(layout, divided.reshard, false);
    for (const std::vector<Bucket>* buckets : {&layout.buckets, &layout.frozen_buckets}) {
        for (const Bucket& bucket : *buckets) {
            const std::vector<FlatRange> own = own_parts(layout, bucket, mesh);
            keep(own, placement.kept_weights, placement.weight_elements);
            if (owner_of(bucket.sharing, mesh).ranks > 1) {
                weights.add(bucket);
            } else {
                // The only rank with these weights computes with what it keeps.
                placement.weights.add(bucket, placement.kept_weights.of(bucket));
            }
        }
    }
    placement.weight_windows = weights.place(placement.weights);
    return placement;
}

}  // namespace gptrain
