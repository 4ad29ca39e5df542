#include "failure_cost.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/log.h"
#include "engine/memory_check.h"
#include "engine/memory_limits.h"
#include "search/table_text.h"

namespace gptrain {
namespace {

void print_steps(std::string_view from, std::int64_t steps, const std::optional<double>& seconds) {
    const std::string time =
        seconds ? text("  ", plain_seconds(*seconds * static_cast<double>(steps)), " s") : "";
    print("  ", padded_right(from, 24), padded_left(counted(steps, "step"), 16), time);
}

void print_node_memory(const NodeMemory& node) {
    const std::int64_t needed = node.ranks * host_bytes(node.rank, node.device_here);
    const auto limits = host_memory_limits();
    const auto least = std::ranges::min_element(limits, {}, &MemoryLimit::available);
    std::string here;
    if (least != limits.end()) {
        here = text(needed <= least->available ? "; fits here: " : "; does not fit here: ",
                    human_bytes(least->available), " available (", least->name, ")");
    }
    print("host memory of a node with ", counted(node.ranks, "rank"), ": ", human_bytes(needed),
          ", of which copies in memory take ",
          human_bytes(node.ranks * node.rank[MemoryUse::memory_copies]), here);
}

}  // namespace

void print_failure_cost(const CheckpointSpec& checkpoint, const NodeMemory& node,
                        const std::optional<double>& step_seconds) {
    if (!checkpoint.memory && !checkpoint.local) return;
    if (checkpoint.memory) print_node_memory(node);
    print("training that a failure repeats, at most");
    if (checkpoint.memory)
        print_steps("from copies in memory", checkpoint.memory_interval, step_seconds);
    if (checkpoint.local) print_steps("from local copies", checkpoint.local_interval, step_seconds);
    if (checkpoint.interval > 0) print_steps("from checkpoints", checkpoint.interval, step_seconds);
}

}  // namespace gptrain
