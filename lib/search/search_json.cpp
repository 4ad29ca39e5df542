#include "search/search_report.h"

namespace gptrain {

Json json_of(const Found& found) {
    const Choices& choices = found.choices;
    const ParallelSpec& parallel = choices.parallel;
    const StepEstimate& estimate = found.estimate;
    return {{"step_seconds", estimate.step.seconds},
            {"tokens_per_s", estimate.tokens_per_second},
            {"mfu", estimate.mfu},
            {"days", estimate.days},
            {"device_hours", estimate.device_hours},
            {"memory_bytes", found.required_bytes},
            {"host_memory_bytes", found.host_bytes},
            {"settings",
             {{"parallel.tensor", parallel.tensor},
              {"parallel.sequence_parallel", parallel.sequence_parallel},
              {"parallel.overlap_tensor", name_of(parallel.overlap_tensor)},
              {"parallel.pipeline", parallel.pipeline},
              {"parallel.virtual_stages", parallel.virtual_stages},
              {"parallel.layers", parallel.layers ? Json(*parallel.layers) : Json("auto")},
              {"parallel.context", parallel.context},
              {"parallel.context_method", name_of(parallel.context_method)},
              {"parallel.data", found.plan.mesh.data},
              {"parallel.expert", parallel.expert},
              {"parallel.schedule", name_of(parallel.schedule)},
              {"parallel.shard", name_of(parallel.shard)},
              {"parallel.shard_ranks",
               parallel.shard_ranks ? Json(*parallel.shard_ranks) : Json("all")},
              {"parallel.reshard", parallel.reshard},
              {"training.micro_batch_size", choices.micro_batch_size},
              {"training.global_batch_size", choices.global_batch_size},
              {"training.steps", found.plan.steps},
              {"precision.compute", choices.compute ? name_of(*choices.compute) : "auto"},
              {"precision.fp8_recipe", choices.fp8_recipe ? name_of(*choices.fp8_recipe) : "auto"},
              {"precision.grad_reduce", name_of(choices.grad_reduce)},
              {"recompute", name_of(choices.recompute)},
              {"offload.optimizer", choices.offload.optimizer},
              {"offload.main_weights", choices.offload.main_weights},
              {"offload.activations", name_of(choices.offload.activations)}}},
            {"seconds", json_of(estimate.step)}};
}

std::string to_json(const SearchReport& report, const SearchContext& context) {
    const SearchCounts& counts = report.result.counts;
    Json best = Json::array();
    for (const Found& found : report.result.best)
        best.push_back(json_of(found));
    Json corners = Json::array();
    for (std::size_t i = 0; i < memory_corners.size(); ++i) {
        const auto& found = report.result.corners[i];
        corners.push_back(
            {{"memory_share", memory_corners[i]}, {"fastest", found ? json_of(*found) : Json()}});
    }
    Json others = Json::array();
    for (const LeftOut& each : left_out(report.result, context))
        others.push_back({{"key", each.key}, {"values", each.values}, {"reason", each.reason}});
    const Json json = {{"hardware", context.hardware.name},
                       {"calibrated", context.hardware.calibrated},
                       {"world_size", context.target.world_size},
                       {"memory_capacity_bytes", context.capacity},
                       {"candidates",
                        {{"fitting", counts.candidates},
                         {"too_large", counts.too_large},
                         {"refused", counts.refused},
                         {"simulated", counts.simulated}}},
                       {"best", std::move(best)},
                       {"corners", std::move(corners)},
                       {"own", report.own.found ? json_of(*report.own.found) : Json()},
                       {"own_refused", report.own.refused},
                       {"left_out", std::move(others)}};
    return to_line(json) + "\n";
}

}  // namespace gptrain
