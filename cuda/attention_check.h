// Chooses the attention kernels for a device, and checks that two sets of kernels agree.
#pragma once

#include <functional>
#include <string>

#include "backend/ops.h"
#include "cuda/environment.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

struct AttentionKernels {
    void (*forward)(const AttentionForward& args, const OpContext& context);
    void (*backward)(const AttentionBackward& args, const OpContext& context);
    bool serve_fp8 = false;  ///< find the amax and write o8, without dropout
};

/// Runs both on small random inputs with head sizes 64 and 128 in bf16, forward and backward, with
/// one and with several tiles of keys a block, plain, with maxima (that of the gradients is of dq,
/// dk and dv in turn), with o8, and with dropout, documents and fp32 gradients, and compares o,
/// log-sum-exp, dq, dk and dv. Describes those that differ by more than bf16 rounding, an amax that
/// is not the largest magnitude, and an o8 that ToFp8Rows does not make of o; empty if there is
/// none. Allocates device memory while it runs and waits for the device.
std::string attention_difference(const AttentionKernels& kernels, const AttentionKernels& reference,
                                 const DeviceProperties& device, const Stream& stream);

/// The same comparison of the sm_90a kernels with the portable ones.
std::string sm90_attention_difference(const DeviceProperties& device, const Stream& stream);

/// True if the sm_90a kernels are to be used: `choice` allows them, the device can run them, and
/// `check` finds nothing wrong with them; warns if it does. Throws Error (usage) if `choice` asks
/// for them and the check fails, or on another device.
bool choose_sm90_attention(AttentionChoice choice, const DeviceProperties& device,
                           const std::function<std::string()>& check);

}  // namespace gptrain::cuda
