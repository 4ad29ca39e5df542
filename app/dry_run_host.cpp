#include "dry_run_host.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "engine/memory_check.h"
#include "planner/step_prices.h"
#include "search/table_text.h"

namespace gptrain {
namespace {

/// Bytes of the state that visits the device in a step.
std::int64_t moved_state(const MemoryPlan& memory) {
    return memory[MemoryUse::host_optimizer] + memory[MemoryUse::host_main_params];
}

/// The host memory of the node that needs the most, where ranks with consecutive numbers share one.
std::int64_t largest_node(std::span<const RankCost> ranks, const RunPlan& plan,
                          std::int64_t per_node) {
    std::vector<std::int64_t> nodes(static_cast<std::size_t>(div_ceil(plan.mesh.size(), per_node)));
    for (const RankCost& rank : ranks) {
        for (const std::int64_t number : rank.rank_class.ranks)
            nodes[static_cast<std::size_t>(number / per_node)] +=
                host_bytes(rank.cost.memory, false);
    }
    return *std::max_element(nodes.begin(), nodes.end());
}

}  // namespace

bool print_host_fit(std::span<const RankCost> ranks, const RunPlan& plan,
                    const HardwareProfile& hardware) {
    const auto available = static_cast<std::int64_t>(hardware.node.host_memory);
    if (available == 0) return true;
    const std::int64_t per_node = ranks_per_node(hardware, plan.mesh.size());
    const std::int64_t needed = largest_node(ranks, plan, per_node);
    const bool fits = needed <= available;
    const std::string numbers =
        text(needed_and_available(needed, per_node * host_reserve, available,
                                  text("node.host_memory of ", hardware.name)),
             " for ", per_node, per_node == 1 ? " rank" : " ranks");
    if (!fits) {
        print("does not fit the host: ", numbers,
              "; use more nodes, keep more on the GPUs (offload) or set checkpoint.async to false");
    } else if (plan.offload != OffloadSpec()) {
        print("fits the host: ", numbers);
    }
    return fits;
}

void print_state_moves(const StepEstimate& estimate, std::span<const RankCost> ranks,
                       const RunPlan& plan, const HardwareProfile& hardware) {
    std::int64_t bytes = 0;
    for (const RankCost& rank : ranks)
        bytes = std::max(bytes, moved_state(rank.cost.memory));
    if (bytes == 0 || hardware.device.copy_bandwidth == 0) return;
    const double seconds = static_cast<double>(bytes) / hardware.device.copy_bandwidth;
    constexpr double share = 0.05;
    const auto tokens = static_cast<double>(plan.batch.global_batch_size * plan.seq_length);
    // The rest of a step grows with its tokens, and the moves of activations hide in it.
    const double rest = std::max(estimate.step.seconds - seconds, 0.0) / tokens;
    print("state moves take ", plain_seconds(seconds), " s of a step, ", human_bytes(bytes),
          " each way at ", human_count(hardware.device.copy_bandwidth),
          "B/s, however many tokens it has: at most 5 % of a step from ",
          rest > 0 ? human_count(seconds * (1 - share) / share / rest) : "any number of",
          " tokens a step on");
}

}  // namespace gptrain
