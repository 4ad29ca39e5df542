#include "pipelines.h"

#include "base/text.h"

namespace gptrain {

std::vector<PipelineShape> tested_shapes() {
    using enum ScheduleKind;
    std::vector<PipelineShape> shapes;
    for (const ScheduleKind kind : {gpipe, one_f_one_b, interleaved_one_f_one_b, zero_bubble}) {
        const std::int64_t most = kind == interleaved_one_f_one_b ? 4 : kind == zero_bubble ? 2 : 1;
        for (std::int64_t v = 1; v <= most; ++v) {
            for (const std::int64_t p : {1, 2, 3, 4, 8}) {
                for (const std::int64_t m : {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17}) {
                    shapes.push_back({kind, p, v, m});
                }
            }
        }
    }
    return shapes;
}

std::string name_of(const PipelineShape& shape) {
    return text(name_of(shape.kind), " p=", shape.stages, " v=", shape.virtual_stages,
                " m=", shape.microbatches);
}

PipelineCosts unit_costs(const PipelineShape& shape) {
    return {.chunks = std::vector<ChunkCost>(static_cast<std::size_t>(shape.model_chunks())),
            .message = 0};
}

double unit_bubble(const Pipeline& pipeline) {
    return bubble(simulate(pipeline, unit_costs(pipeline.shape)));
}

}  // namespace gptrain
