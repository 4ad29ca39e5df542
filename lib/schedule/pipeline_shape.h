// Which chunk of layers lies on which stage.
#pragma once

#include <cstdint>

#include "spec/run_spec.h"

namespace gptrain {

/// A chunk is a range of layers; a stage holds `virtual_stages` of them.
struct PipelineShape {
    ScheduleKind kind = ScheduleKind::one_f_one_b;
    std::int64_t stages = 1;          ///< p
    std::int64_t virtual_stages = 1;  ///< v; above 1 with interleaved_1f1b, and 2 makes ZB-V
    std::int64_t microbatches = 1;    ///< m, of one step on one data rank

    /// Chunks of the whole model.
    std::int64_t positions() const { return stages * virtual_stages; }
    /// The model lies on the stages as a V: down with chunk 0, up again with chunk 1.
    bool is_v() const { return kind == ScheduleKind::zero_bubble && virtual_stages == 2; }
    bool operator==(const PipelineShape&) const = default;
};

/// Sizes below 1 and chunks that the kind has no order for are an Error (bug).
void check_shape(const PipelineShape& shape);

struct ChunkPlace {
    std::int64_t stage = 0;
    std::int64_t chunk = 0;
    bool operator==(const ChunkPlace&) const = default;
};

/// The place of the chunk at a position of the model, counted from its first layers: chunk c of
/// stage s is at position c p + s; in ZB-V chunk 0 of stage s is at s, chunk 1 at 2p - 1 - s.
ChunkPlace place_at(const PipelineShape& shape, std::int64_t position);
std::int64_t position_of(const PipelineShape& shape, const ChunkPlace& place);

}  // namespace gptrain
