// A microbatch in backend memory.
#pragma once

#include "backend/backend.h"
#include "data/batch_loader.h"

namespace gptrain {

struct Batch {
    Tensor ids;               ///< i32 [B, S]
    Tensor targets;           ///< i32 [B, S]
    Tensor weights;           ///< fp32 [B, S]
    Tensor positions;         ///< i32 [B, S]
    Tensor stream_positions;  ///< i32, of the rows of the residual stream
    Tensor first_visible;     ///< i32 [B, S], or empty: every token sees all before it

    std::int64_t sequences() const { return ids.size(0); }
    std::int64_t seq_length() const { return ids.size(1); }
    std::int64_t tokens() const { return ids.elements(); }
};

/// Which part of the sequence the residual stream has: this slice of so many equal ones.
struct StreamSlice {
    std::int64_t index = 0;
    std::int64_t count = 1;
};

/// Memory for a batch [B, S].
Batch reserve_batch(Arena& arena, const Shape& shape, bool first_visible,
                    const StreamSlice& stream = {});

/// Copies a microbatch of the same sizes there.
void upload_batch(Backend& backend, const Batch& batch, const Microbatch& microbatch,
                  const StreamSlice& stream = {});

}  // namespace gptrain
