// Memory of a stage that lasts from action to action.
#pragma once

#include <vector>

#include "model/chunk.h"
#include "schedule/schedule.h"

namespace gptrain {

struct StageMemory {
    std::vector<Batch> batches;                  ///< [slot]
    std::vector<std::vector<SavedChunk>> saved;  ///< [chunk][slot]; slots serve chunks in turn
    std::vector<DeferredHead> deferred_heads;    ///< [deferred_head]
    std::vector<Tensor> buffers;                 ///< boundary buffers, [B S, H] of the stream
};

struct StageSizes {
    std::int64_t slots = 1;
    std::int64_t head_slots = 0;
    std::int64_t deferred_heads = 0;
    std::int64_t buffers = 0;
    SavedSizes saved;
    StreamSlice stream;  ///< this rank's part of the sequence in the residual stream
    BatchMasks masks;
};

/// Allocates batches and boundary buffers, all that an evaluation needs.
StageMemory reserve_forward(const ModelContext& context, const StageSizes& sizes);

/// The same, plus what is kept for backward. Call it once, before the first action.
StageMemory reserve_stage(const ModelContext& context, const std::vector<GptChunk>& chunks,
                          const StageSizes& sizes);

}  // namespace gptrain
