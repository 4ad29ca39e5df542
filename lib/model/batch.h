// A microbatch in backend memory.
#pragma once

#include "backend/backend.h"
#include "data/microbatch.h"
#include "model/sequence.h"

namespace gptrain {

template <class T>
using BackendValues = Tensor;

/// Fields that a run lacks are empty.
struct Batch : TokenFields<BackendValues> {
    Tensor stream_positions;  ///< i32: positions of the residual stream's rows
    Tensor stream_weights;    ///< fp32: weights of these rows
    bool only_text = false;   ///< known to have no virtual tokens

    std::int64_t sequences() const { return ids.size(0); }
    std::int64_t seq_length() const { return ids.size(1); }
    std::int64_t tokens() const { return ids.elements(); }
};

/// Allocates a batch of `shape` [B, S]. `stream`: the part of each sequence in the residual stream.
Batch reserve_batch(Arena& arena, const Shape& shape, const BatchMasks& masks,
                    const StreamSlice& stream = {});

/// The batch's memory for fewer tokens, none of whose stream is on other ranks.
Batch shortened(const Batch& batch, const Shape& shape);

/// Copies the fields that `batch` has from a microbatch of the same sizes.
void upload_batch(Backend& backend, const Batch& batch, const Microbatch& microbatch,
                  const StreamSlice& stream = {});

}  // namespace gptrain
