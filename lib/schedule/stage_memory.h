// What a stage keeps between the actions of its schedule.
#pragma once

#include <vector>

#include "model/chunk.h"
#include "schedule/schedule.h"

namespace gptrain {

struct StageMemory {
    std::vector<Batch> batches;                  ///< of each slot
    std::vector<std::vector<SavedChunk>> saved;  ///< [chunk][slot]; a slot serves one at a time
    std::vector<Tensor> buffers;                 ///< boundary buffers, [B S, H] of the stream
};

struct StageSizes {
    std::int64_t slots = 1;
    std::int64_t heads = 0;
    std::int64_t buffers = 0;
    SavedSizes saved;
    StreamSlice stream;          ///< the residual stream's part of a sequence
    bool first_visible = false;  ///< batches carry it
};

/// Batches and boundary buffers: all that an evaluation needs.
StageMemory reserve_forward(const ModelContext& context, const StageSizes& sizes);

/// With what is kept for backward. Once, before the first action.
StageMemory reserve_stage(const ModelContext& context, const std::vector<GptChunk>& chunks,
                          const StageSizes& sizes);

}  // namespace gptrain
