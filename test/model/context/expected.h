// Expected results of attention over a shared sequence, by the reference of the op tests.
#pragma once

#include "context_case.h"
#include "ops/host_tensor.h"
#include "ops/reference.h"

namespace gptrain::test {

/// The arguments for whole sequences on one rank.
struct WholeInputs {
    explicit WholeInputs(const ContextCase& context_case);

    HostTensor qkv;            ///< [B, S, N + 2 G, D]
    HostTensor d_o;            ///< [B, S, N, D]
    HostTensor first_visible;  ///< i32 [B, S]
    HostTensor sinks;          ///< [N]
    reference::Mask mask;
};

/// Results for whole sequences, with bounds for the effect of rounding.
struct Expected {
    gptrain::Array o;    ///< [B, S, N, D]
    gptrain::Array lse;  ///< [B, N, S]
    gptrain::Array dqkv;
    gptrain::Array dsinks;  ///< [N]: of all ranks; 0 without sinks
};
/// The bounds count the parts that `ranks` ranks compute and merge, each in its order.
Expected expected(const ContextCase& context_case, const WholeInputs& inputs, int ranks);

/// Part of an array along one dim.
gptrain::Array part_of(const gptrain::Array& whole, int dim,
                       const std::vector<SequenceSlice>& slices);

}  // namespace gptrain::test
