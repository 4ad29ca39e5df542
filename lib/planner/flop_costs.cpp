#include "planner/flop_costs.h"

#include "schedule/stage_plan.h"
#include "spec/model_tensors.h"

namespace gptrain {
namespace {

/// Forward FLOPs of one layer for one token.
struct LayerFlops {
    double gemms;
    double attention;
};

LayerFlops layer_flops(const RunPlan& plan) {
    ModelShape one_more = plan.model;
    one_more.layers += 1;
    const auto parameters =
        static_cast<double>(parameter_count(one_more) - parameter_count(plan.model));
    // Backward takes twice the FLOPs of forward.
    const double attention = flops_per_token(plan.model, plan.seq_length) -
                             6 * static_cast<double>(parameter_count(plan.model));
    return {2 * parameters, attention / 3 / static_cast<double>(plan.model.layers)};
}

}  // namespace

PipelineCosts flop_costs(const RunPlan& plan) {
    const double tokens = static_cast<double>(plan.micro_batch_size * plan.local_length()) /
                          static_cast<double>(plan.mesh.tensor);
    const double unit = tokens / assumed_rate;
    const LayerFlops layer = layer_flops(plan);
    const bool separate_weights = make_schedule(pipeline_of(plan, 1), 0).defers_weights;
    PipelineCosts costs;
    std::int64_t next_layer = 0;
    for (const std::int64_t layers : plan.chunk_layers) {
        double frozen = 0;
        for (const std::int64_t end = next_layer + layers; next_layer < end; ++next_layer)
            frozen += static_cast<double>(frozen_in_layer(plan, next_layer));
        const double count = unit * static_cast<double>(layers);
        ChunkCost chunk = {.forward = count * (layer.gemms + layer.attention),
                           .backward_inputs = count * (layer.gemms + 2 * layer.attention),
                           .backward_weights = count * layer.gemms - unit * 2 * frozen};
        if (plan.recompute == Recompute::full) {
            chunk.backward_inputs += chunk.forward;
            // A separate W cannot reuse what B recomputed.
            if (separate_weights) chunk.backward_weights += chunk.forward;
        }
        costs.chunks.push_back(chunk);
    }
    const double product =
        unit * 2 * static_cast<double>(plan.model.vocab) * static_cast<double>(plan.model.hidden);
    const bool trains_head = plan.parameters.trains(head_matrix(plan.model));
    costs.chunks.back().forward += (trains_head ? 3 : 2) * product;
    costs.chunks.back().head_weights = trains_head ? product : 0;
    return costs;
}

}  // namespace gptrain
