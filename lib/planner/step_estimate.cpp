#include "planner/step_estimate.h"

#include "spec/model_cost.h"

namespace gptrain {
namespace {

/// FLOPs of a step on all ranks, recomputation included.
double computed_flops(std::span<const RankCost> ranks) {
    double flops = 0;
    for (const RankCost& rank : ranks) {
        flops += static_cast<double>(std::ssize(rank.rank_class.ranks)) *
                 rank.cost.forward_and_backward.total();
    }
    return flops;
}

}  // namespace

StepEstimate estimate_step(TracedStep& step, std::span<const RankCost> ranks,
                           const HardwareProfile& hardware) {
    const RunPlan& plan = step.plan();
    StepEstimate estimate;
    estimate.hardware = hardware.name;
    estimate.calibrated = hardware.calibrated;
    estimate.world_size = plan.mesh.size();
    estimate.step = step.time(hardware);
    const double seconds = estimate.step.seconds;
    const auto samples = static_cast<double>(plan.batch.global_batch_size);
    const double tokens = samples * static_cast<double>(plan.seq_length);
    estimate.tokens_per_second = tokens / seconds;
    estimate.devices =
        static_cast<double>(plan.mesh.size()) * devices_per_rank(hardware, plan.mesh.size());
    const DType dtype = plan.fp8 ? DType::f8e4m3 : plan.compute;
    const double peak = hardware.device.peak_flops.of(dtype) * estimate.devices * seconds;
    estimate.mfu = tokens * flops_per_token(plan) / peak;
    estimate.hfu = (computed_flops(ranks) + tokens * flops_outside_gemms(plan)) / peak;

    const double run_seconds =
        seconds * static_cast<double>(plan.batch.samples_of(plan.steps)) / samples;
    estimate.days = run_seconds / 86400;
    estimate.device_hours = run_seconds / 3600 * estimate.devices;
    estimate.cost = estimate.device_hours * hardware.price_per_hour;
    estimate.megawatt_hours = estimate.device_hours * hardware.watts / 1e6;
    // The rank that needs the most GPU memory, or on a CPU the most host memory.
    std::int64_t most = 0;
    for (const RankCost& rank : ranks) {
        const MemoryPlan& memory = rank.cost.memory;
        const bool cuda = hardware.kind == DeviceChoice::cuda;
        const std::int64_t needed = cuda ? memory.on_device() : memory.total();
        if (needed <= most) continue;
        most = needed;
        estimate.device_bytes = memory.on_device();
        estimate.host_bytes = memory.total() - memory.on_device();
    }
    return estimate;
}

Json json_of(const StepTime& step) {
    Json seconds;
    for (int i = 0; i < spent_kinds; ++i) {
        const auto spent = static_cast<Spent>(i);
        seconds[std::string(spent == Spent::gemms ? "products" : name_of(spent))] = step[spent];
    }
    return seconds;
}

std::string to_json(const StepEstimate& estimate) {
    const Json json = {
        {"hardware", estimate.hardware},
        {"calibrated", estimate.calibrated},
        {"world_size", estimate.world_size},
        {"step_seconds", estimate.step.seconds},
        {"tokens_per_s", estimate.tokens_per_second},
        {"tokens_per_s_per_device", estimate.tokens_per_second / estimate.devices},
        {"mfu", estimate.mfu},
        {"hfu", estimate.hfu},
        {"days", estimate.days},
        {"device_hours", estimate.device_hours},
        {"memory_bytes", {{"device", estimate.device_bytes}, {"host", estimate.host_bytes}}},
        {"memory_left_bytes",
         estimate.memory_left_bytes ? Json(*estimate.memory_left_bytes) : Json()},
        {"seconds", json_of(estimate.step)}};
    return to_line(json) + "\n";
}

}  // namespace gptrain
