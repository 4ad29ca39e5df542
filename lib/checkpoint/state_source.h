// The state that a checkpoint holds, as handed over by the rooms above.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/buffer.h"
#include "base/nf4.h"
#include "tensor/shard.h"

namespace gptrain {

/// Calls the visitor once for each shard of this rank, always the same shards in the same order.
/// Values are fp32, or in 16 bits (bf16, fp16), which a checkpoint holds as fp32. Shards may be
/// empty.
using StateSource = std::function<void(const StateVisitor&)>;

struct HeldState {
    std::string group;
    Shard shard;
    Tensor values;  ///< one dim
};

/// A state whose buffer others may share: filled one at a time, then consumed by `on_filled`.
struct StreamedState {
    std::string group;
    Shard shard;
    Tensor values;                    ///< one dim
    std::function<void()> on_filled;  ///< called when `values` are filled; may be empty
    /// Takes the whole matrix of which `shard` is a part, or one of an expert, where it is stored
    /// in NF4; then nothing fills `values`. May be empty.
    std::function<void(const Nf4View&)> on_stored = {};
};

/// True for the dtypes of values that a checkpoint can hold.
constexpr bool is_stored(DType dtype) {
    return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

/// The nonempty shards of `source`, in order.
std::vector<HeldState> held_state(const StateSource& source);
/// The held shards that this rank owns.
std::vector<HeldState> owned_state(const StateSource& source);

}  // namespace gptrain
