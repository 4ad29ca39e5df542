#include "dry_run.h"

#include <string>

#include "base/log.h"
#include "device.h"
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

}  // namespace

void print_dry_run(const RunSpec& spec, const RunPlan& plan) {
    const BackendNeeds needs = device_needs(spec.device);
    const StepCost cost = measure_run(spec, plan, place_of(0, plan.mesh), needs);
    print(describe(plan));
    print_memory(cost.memory);
    if (needs.reserve > 0) {
        print(row("context and libraries", human_bytes(needs.reserve)),
              "  left to them; a run prints what they take");
    }
    print_work(cost, plan);
}

}  // namespace gptrain
