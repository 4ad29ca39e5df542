#include "schedule/pipeline_shape.h"

#include "base/error.h"

namespace gptrain {

void check_shape(const PipelineShape& shape) {
    GPTRAIN_CHECK(shape.stages >= 1 && shape.virtual_stages >= 1 && shape.microbatches >= 1,
                  shape.stages, " stages, ", shape.virtual_stages, " virtual stages, ",
                  shape.microbatches, " microbatches");
    GPTRAIN_CHECK(shape.deferred_heads >= 0, shape.deferred_heads, " deferred heads");
    const bool chunked = shape.kind == ScheduleKind::interleaved_one_f_one_b ||
                         shape.virtual_stages == 1 || shape.is_v();
    GPTRAIN_CHECK(chunked, name_of(shape.kind), " with ", shape.virtual_stages, " virtual stages");
}

ChunkPlace place_at(const PipelineShape& shape, std::int64_t model_chunk) {
    const ChunkPlace place = {model_chunk % shape.stages, model_chunk / shape.stages};
    if (shape.is_v() && place.chunk == 1) return {shape.stages - 1 - place.stage, 1};
    return place;
}

std::int64_t model_chunk_at(const PipelineShape& shape, const ChunkPlace& place) {
    const bool upwards = shape.is_v() && place.chunk == 1;
    const std::int64_t along = upwards ? shape.stages - 1 - place.stage : place.stage;
    return place.chunk * shape.stages + along;
}

ChunkPlace head_place(const PipelineShape& shape) {
    return place_at(shape, shape.model_chunks() - 1);
}

}  // namespace gptrain
