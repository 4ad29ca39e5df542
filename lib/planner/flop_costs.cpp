#include "planner/flop_costs.h"

#include "engine/long_step.h"
#include "planner/long_times.h"
#include "schedule/schedule.h"
#include "schedule/stage_plan.h"
#include "spec/model_cost.h"

namespace gptrain {

PipelineCosts flop_costs(const RunPlan& plan) {
    const double tokens = static_cast<double>(plan.micro_batch_size * plan.local_length()) /
                          static_cast<double>(plan.mesh.tensor);
    const double unit = tokens / assumed_rate;
    const std::vector<ParameterCounts> parameters = layer_parameters(plan);
    const bool separate_weights = defers_weights(plan.schedule);
    PipelineCosts costs;
    std::int64_t next_layer = 0;
    for (const std::int64_t layers : plan.chunk_layers) {
        double gemms = 0;  // forward
        double weight_gemms = 0;
        double attention = 0;  // forward; backward takes twice its FLOPs
        for (const std::int64_t end = next_layer + layers; next_layer < end; ++next_layer) {
            const ParameterCounts& layer = parameters[static_cast<std::size_t>(next_layer)];
            gemms += 2 * layer.active;
            weight_gemms += 2 * layer.trained;
            attention += attention_flops_per_token(plan.model, next_layer, plan.seq_length) / 3;
        }
        ChunkCost chunk = {.forward = unit * (gemms + attention),
                           .backward_inputs = unit * (gemms + 2 * attention),
                           .backward_weights = unit * weight_gemms};
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

Timeline flop_timeline(const RunPlan& plan) {
    return simulate(make_pipeline(pipeline_of(plan, most_microbatches(plan))), flop_costs(plan));
}

double flop_bubble(const RunPlan& plan) {
    const std::vector<double> times = times_of_step(
        pipeline_of(plan, most_microbatches(plan)), full_microbatches(plan),
        [&](std::int64_t microbatches) {
            const Timeline step = flop_timeline(with_microbatches(plan, microbatches));
            return SimulatedStep{tracks_of(step), {span_of(step).seconds(), busy_seconds(step)}};
        });
    return static_cast<double>(plan.mesh.pipeline) * times[0] / times[1] - 1;
}

}  // namespace gptrain
