// Which kernels a device gets for attention, and whether two of them agree on it.
#pragma once

#include <string>

#include "backend/ops.h"
#include "cuda/environment.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

struct AttentionKernels {
    void (*forward)(const AttentionForward& args, const OpContext& context);
    void (*backward)(const AttentionBackward& args, const OpContext& context);
};

/// Computes small random heads of 64 and 128 in bf16, forward and backward, with both, and compares
/// o, log-sum-exp, dq, dk, dv. What is not the same within the rounding of bf16 is named; empty:
/// all agree. Takes its memory from the device while it runs, and waits.
std::string attention_difference(const AttentionKernels& kernels, const AttentionKernels& trusted,
                                 const DeviceFacts& device, const Stream& stream);

/// Whether the kernels for sm_90a shall be used: as wanted, and only if they agree with the
/// portable ones now, else with a warning. Wanted on another device: Error (usage).
bool use_sm90_attention(AttentionChoice wanted, const DeviceFacts& device, const Stream& stream);

}  // namespace gptrain::cuda
