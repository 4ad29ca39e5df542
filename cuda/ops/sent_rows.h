// Rows of a message to other GPUs, of which only some are sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/peer_limits.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// Rows for one GPU, without gaps.
struct SentRows {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    const std::int32_t* slots = nullptr;  ///< one for each row
    std::int64_t rows = 0;
    std::int64_t row_bytes = 0;
};

/// Row i of `to` = row i of `from` where slots[i] >= 0; the other rows stay as they are. At most
/// most_peers parts; all memory is accessible to the device.
///
/// Few blocks run at a time, so GEMMs beside them lose few multiprocessors. 32 blocks of 256
/// threads are assumed to write as fast as a copy engine to GPUs behind NVLink.
void send_rows(std::span<const SentRows> parts, const Stream& stream);

}  // namespace gptrain::cuda
