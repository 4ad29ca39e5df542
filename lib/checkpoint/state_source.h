// The state that a checkpoint holds, as handed over by the rooms above.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/buffer.h"
#include "tensor/shard.h"

namespace gptrain {

/// Calls the visitor once for each shard of this rank, always the same shards in the same order.
/// Values are fp32. Shards may be empty.
using StateSource = std::function<void(const StateVisitor&)>;

struct OwnedState {
    std::string group;
    Shard shard;
    Tensor values;  ///< fp32, one dim
};

/// The owned, nonempty shards of `source`, in order.
std::vector<OwnedState> owned_state(const StateSource& source);

}  // namespace gptrain
