// The part of a named tensor that a rank holds. Model, optimizer and checkpoint describe tensors
// only in these terms, so that a checkpoint of one mesh loads on any other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace gptrain {

/// A rectangular part of a tensor: `extent` indices from `offset` on in each dim.
struct Box {
    Shape offset;
    Shape extent;
    bool operator==(const Box&) const = default;
};

/// One rank's part of a tensor: a box, and inside it a range of its row-major elements. Every
/// element has exactly one owner on the mesh: norm, parameter count and checkpoint read only the
/// parts marked `owned`.
struct Shard {
    std::string name;  ///< global name, such as "h.3.attn.q.weight"
    Shape global;      ///< shape of the whole tensor
    Box box;           ///< this rank's box
    std::int64_t flat_begin = 0;
    std::int64_t flat_end = 0;  ///< [flat_begin, flat_end) of the box's row-major elements
    bool owned = true;

    /// The whole tensor on one rank.
    static Shard whole(std::string name, const Shape& global);
    std::int64_t elements() const { return flat_end - flat_begin; }
    /// Row-major index in the whole tensor of the box's element `flat`.
    std::int64_t global_index(std::int64_t flat) const;
};

/// A tensor of the training state, under its checkpoint name: group "weight" (the fp32 or bf16 main
/// parameter, or a frozen weight in the compute dtype), "exp_avg", "exp_avg_sq" (or their
/// "..._codes" and "..._scales") or "momentum_buffer". `values` holds the shard's elements,
/// contiguous.
struct NamedState {
    std::string_view group;
    Shard shard;
    Tensor values;
};

using StateVisitor = std::function<void(const NamedState&)>;

}  // namespace gptrain
