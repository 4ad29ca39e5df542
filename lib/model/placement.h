// Where a rank keeps the ranges of the flat order. By default whole weights and whole gradients are
// in one buffer each. If gradients or weights are divided among ranks (parallel.shard), a rank
// keeps what it owns, and everything else passes through windows: memory that units (ChunkRange)
// use in turn. Blocks alternate between two windows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "comm/mesh.h"
#include "model/layout.h"

namespace gptrain {

/// A place in one of two buffers.
struct BufferPlace {
    bool window = false;  ///< in the buffer of windows, not in that of what the rank keeps
    std::int64_t begin = 0;
};

/// The places of ranges of the flat order.
class FlatMap {
public:
    void add(const FlatRange& range, const BufferPlace& place);
    /// The place of a range, which must lie inside one that was added.
    BufferPlace of(const FlatRange& range) const;
    bool has(const FlatRange& range) const;

private:
    struct Entry {
        std::int64_t end;
        BufferPlace place;
    };
    const Entry* find(const FlatRange& range, std::int64_t& begin) const;
    std::map<std::int64_t, Entry> entries_;  ///< by the first position
};

/// The windows of weights, or of gradients.
struct UnitWindows {
    std::vector<std::optional<int>> of_unit;  ///< empty: the unit has nothing in windows
    int count = 0;
    std::int64_t elements = 0;  ///< of all of them
};

struct Placement {
    FlatMap weights;       ///< those that the model computes with
    FlatMap kept_weights;  ///< those that this rank updates, or keeps of frozen parameters
    FlatMap grads;         ///< those that this rank computes
    FlatMap kept_grads;    ///< the sums that it owns
    std::int64_t weight_elements = 0;  ///< kept
    std::int64_t grad_elements = 0;    ///< kept
    UnitWindows weight_windows;        ///< without any, weights are whole
    UnitWindows grad_windows;          ///< without any, gradients are whole
};

/// Whole weights and gradients.
Placement whole_placement(const ParameterLayout& layout);

/// With `grads` gradients, with `weights` weights too are divided among the owners in `mesh`; the
/// layout has units. With `reshard` blocks share windows for weights.
struct DividedState {
    bool weights = false;
    bool reshard = true;
};
Placement divided_placement(const ParameterLayout& layout, const Mesh& mesh,
                            const DividedState& divided);

}  // namespace gptrain
