// Where the bytes of a rank's shards are read from when they are saved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/state_source.h"

namespace gptrain {

/// Gives the bytes of tensor `index` from `offset` on: `bytes` of them, or as many whole blocks of
/// checkpoint_block_bytes as it can hold at once. Valid until the next call.
using BlockSource = std::function<std::span<const std::byte>(std::size_t index, std::int64_t offset,
                                                             std::int64_t bytes)>;

/// From tensors in host memory, as they are when it is called.
BlockSource blocks_of(std::vector<Tensor> tensors);

/// From tensors of the backend: as they are where it computes in host memory, else through a buffer
/// of its own of 16 blocks. To be called where the backend may be called.
BlockSource blocks_of(Backend& backend, std::span<const OwnedState> owned);

/// The tensors of `owned`, in order.
std::vector<Tensor> values_of(std::span<const OwnedState> owned);

}  // namespace gptrain
