// Sources of the bytes that a rank saves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/state_source.h"

namespace gptrain {

/// Returns the bytes of tensor `index` from `offset` on: `bytes` of them, or as many whole blocks
/// of checkpoint_block_bytes as fit in its buffer. Valid until the next call.
using BlockSource = std::function<std::span<const std::byte>(std::size_t index, std::int64_t offset,
                                                             std::int64_t bytes)>;

// Values in 16 bits are given as fp32, widened in a buffer of 16 blocks.

/// Reads tensors in host memory at the time of the call.
BlockSource blocks_of(std::vector<Tensor> tensors);

/// Reads tensors of the backend: directly if it computes in host memory, else through its own
/// buffer of 16 blocks. Call it only where the backend may be called.
BlockSource blocks_of(Backend& backend, std::span<const HeldState> owned);

/// The tensors of `owned`, in order.
std::vector<Tensor> values_of(std::span<const HeldState> owned);

}  // namespace gptrain
