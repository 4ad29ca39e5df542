// The placement of chunks of layers on stages.
#pragma once

#include <cstdint>

#include "spec/spec_words.h"

namespace gptrain {

/// A pipeline; each stage holds `virtual_stages` chunks of layers.
struct PipelineShape {
    ScheduleKind kind = ScheduleKind::one_f_one_b;
    std::int64_t stages = 1;          ///< p
    std::int64_t virtual_stages = 1;  ///< v; above 1 for interleaved_1f1b; 2 makes zero_bubble ZB-V
    std::int64_t microbatches = 1;    ///< m, of one step on one data rank
    /// Up to this many final microbatches defer the head's weight gradient to WH.
    std::int64_t deferred_heads = 0;

    /// Number of chunks in the model, those of all stages.
    std::int64_t model_chunks() const { return stages * virtual_stages; }
    /// True if the model runs down the stages with chunk 0 and back up with chunk 1, as a V.
    bool is_v() const { return kind == ScheduleKind::zero_bubble && virtual_stages == 2; }
    bool operator==(const PipelineShape&) const = default;
};

/// Sizes below 1, and virtual stages that the schedule kind does not support, are an Error (bug).
void check_shape(const PipelineShape& shape);

struct ChunkPlace {
    std::int64_t stage = 0;
    std::int64_t chunk = 0;
    bool operator==(const ChunkPlace&) const = default;
};

/// The place of a chunk of the model. They count from the first layers on: model chunk c p + s is
/// chunk c of stage s. In ZB-V, model chunk s is chunk 0 of stage s, and 2p - 1 - s its chunk 1.
ChunkPlace place_at(const PipelineShape& shape, std::int64_t model_chunk);
/// The inverse.
std::int64_t model_chunk_at(const PipelineShape& shape, const ChunkPlace& place);
/// The place of the model's last chunk, which includes the head.
ChunkPlace head_place(const PipelineShape& shape);

}  // namespace gptrain
