// A microbatch in backend memory: token ids and targets, loss weights, positions, all [B, S].
#pragma once

#include "backend/backend.h"
#include "data/batch_loader.h"
#include "model/sequence.h"

namespace gptrain {

struct Batch {
    Tensor ids;               ///< i32 [B, S]; those of virtual tokens are below 0
    Tensor targets;           ///< i32 [B, S]
    Tensor weights;           ///< fp32 [B, S]
    Tensor positions;         ///< i32 [B, S]
    Tensor stream_positions;  ///< i32: positions of the residual stream's rows
    Tensor first_visible;     ///< i32 [B, S], or empty: each token sees all earlier ones
    Tensor first_in_window;   ///< i32 [B, S], or empty: the same for layers with a window
    Tensor sources;           ///< i32 [B], or empty: the source of each sequence
    bool only_text = false;   ///< known to have no virtual tokens

    std::int64_t sequences() const { return ids.size(0); }
    std::int64_t seq_length() const { return ids.size(1); }
    std::int64_t tokens() const { return ids.elements(); }
};

/// What not every batch has.
struct BatchMasks {
    bool documents = false;  ///< it has first_visible
    bool window = false;     ///< it has first_in_window
    bool sources = false;
};

/// Allocates a batch of `shape` [B, S]. `stream`: the part of each sequence in the residual stream.
Batch reserve_batch(Arena& arena, const Shape& shape, const BatchMasks& masks,
                    const StreamSlice& stream = {});

/// Copies a microbatch of the same sizes into `batch`.
void upload_batch(Backend& backend, const Batch& batch, const Microbatch& microbatch,
                  const StreamSlice& stream = {});

}  // namespace gptrain
