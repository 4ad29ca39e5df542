#include "dry_run.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/log.h"
#include "device.h"
#include "planner/flop_costs.h"
#include "schedule/stage_plan.h"
#include "timeline.h"
#include "train/engine.h"

namespace gptrain {
namespace {

std::string row(std::string_view name, std::string_view value) {
    constexpr std::size_t name_width = 26;
    constexpr std::size_t value_width = 16;
    std::string line = "  ";
    line += name;
    line.resize(std::max(line.size(), name_width), ' ');
    if (value.size() < value_width) line.append(value_width - value.size(), ' ');
    line += value;
    return line;
}

void print_memory(const MemoryPlan& memory) {
    print("memory per rank");
    for (int i = 0; i < memory_uses; ++i) {
        const auto use = static_cast<MemoryUse>(i);
        if (memory[use] == 0) continue;
        print(row(name_of(use), human_bytes(memory[use])), "  ", memory[use]);
    }
    print(row("total", human_bytes(memory.total())), "  ", memory.total());
}

std::string flops(double count) {
    return text(human_count(count), "FLOP");
}

void print_work(const StepCost& cost, const RunPlan& plan) {
    const double tokens = static_cast<double>(plan.batch.global_batch_size * plan.seq_length);
    print("work per step at global_batch_size ", plan.batch.global_batch_size);
    print(row("microbatches per rank", text(cost.microbatches)));
    print(row("products per rank", flops(cost.forward_and_backward.products)));
    print(row("attention per rank", flops(cost.forward_and_backward.attention)));
    print(row("model FLOPs, all ranks",
              flops(tokens * flops_per_token(plan.model, plan.seq_length))));
    for (int i = 0; i < axes; ++i) {
        const auto axis = static_cast<Axis>(i);
        if (cost.sent(axis) == 0) continue;
        print(row(text("sent on ", name_of(axis)), human_bytes(cost.sent(axis))), "  ",
              cost.sent(axis));
    }
    print("model FLOPs = tokens x (6 x parameters + 6 x layers x heads x head_dim x seq_length)");
}

std::string layers_of(const RunPlan& plan, std::int64_t stage) {
    std::string layers;
    for (const ChunkPart& part : chunk_parts(plan, stage)) {
        const std::int64_t last = part.first_layer + part.num_layers - 1;
        layers += text(layers.empty() ? "" : ", ", part.first_layer, " to ", last);
    }
    return layers;
}

void print_stages(const std::vector<StepCost>& stages, const RunPlan& plan) {
    print("stages, each of ", plan.mesh.size() / plan.mesh.pipeline, " ranks");
    print("  stage       memory  activations        FLOPs    sent on pp  layers");
    for (std::size_t i = 0; i < stages.size(); ++i) {
        const StepCost& cost = stages[i];
        const auto right = [](std::string_view value, std::size_t width) {
            return std::string(width > value.size() ? width - value.size() : 0, ' ') +
                   std::string(value);
        };
        print(right(text(i), 7), right(human_bytes(cost.memory.total()), 13),
              right(human_bytes(cost.memory[MemoryUse::saved]), 13),
              right(flops(cost.forward_and_backward.total()), 13),
              right(human_bytes(cost.sent(Axis::pp)), 14), "  ",
              layers_of(plan, static_cast<std::int64_t>(i)));
    }
}

/// The step of one pipeline, which finds out lists that do not fit together.
Timeline simulated(const RunSpec& spec, const RunPlan& plan) {
    const std::int64_t microbatches = plan.microbatches(plan.batch.global_batch_size);
    Timeline timeline =
        simulate(make_pipeline(pipeline_of(plan, microbatches)), flop_costs(plan, spec.recompute));
    timeline.title = text(spec.name, ": one step of one pipeline, simulated at ",
                          human_count(assumed_rate), "FLOP/s a rank");
    return timeline;
}

}  // namespace

void print_dry_run(const RunSpec& spec, const RunPlan& plan,
                   const std::filesystem::path& timeline) {
    const BackendNeeds needs = device_needs(spec.device);
    std::vector<StepCost> stages;
    for (int stage = 0; stage < plan.mesh.pipeline; ++stage)
        stages.push_back(measure_run(spec, plan, {.pp = stage}, needs));
    const auto most = std::max_element(
        stages.begin(), stages.end(),
        [](const StepCost& a, const StepCost& b) { return a.memory.total() < b.memory.total(); });
    const Timeline step = simulated(spec, plan);
    if (!timeline.empty()) write_timeline(timeline, step);

    print(describe(plan));
    print_memory(most->memory);
    if (needs.reserve > 0) {
        print(row("context and libraries", human_bytes(needs.reserve)),
              "  left to them; a run prints what they take");
    }
    print_work(*most, plan);
    if (stages.size() == 1) return;
    print_stages(stages, plan);
    print("bubble ", fixed(100 * bubble(step), 1),
          " % = idle time / time of the computation, at these stages' FLOPs and messages without "
          "cost");
}

}  // namespace gptrain
