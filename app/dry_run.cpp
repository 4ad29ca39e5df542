#include "dry_run.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/output_file.h"
#include "device.h"
#include "dry_run_host.h"
#include "dry_run_time.h"
#include "engine/long_step.h"
#include "engine/memory_check.h"
#include "failure_cost.h"
#include "metrics/comm_metrics.h"
#include "planner/flop_costs.h"
#include "planner/mesh_cost.h"
#include "planner/message_buffers.h"
#include "planner/step_estimate.h"
#include "schedule/stage_plan.h"
#include "search/table_text.h"
#include "spec/fit_advice.h"
#include "spec/model_cost.h"
#include "timeline.h"

namespace gptrain {
namespace {

using RankCosts = std::span<const RankCost>;

std::string bytes_row(std::string_view name, std::int64_t bytes) {
    return text(row(name, human_bytes(bytes)), "  ", bytes);
}

std::string flops_text(double count) {
    return text(human_count(count), "FLOP");
}

void print_device(DeviceChoice choice, bool cuda) {
    print("planned for device ",
          cuda ? "cuda: any NVIDIA GPU (all need the same memory)" : "cpu: this machine's",
          choice == DeviceChoice::automatic ? ", as a run here would choose (auto)" : "");
}

// ---- memory -------------------------------------------------------------------------------------

/// The memory that must be available: the GPU's, or on a CPU all of the host's.
std::int64_t required_bytes(const StepCost& cost, bool cuda) {
    return cuda ? cost.memory.on_device() : cost.memory.total();
}

const RankCost& largest_rank(RankCosts ranks, bool cuda) {
    return *std::max_element(ranks.begin(), ranks.end(), [&](const auto& a, const auto& b) {
        return required_bytes(a.cost, cuda) < required_bytes(b.cost, cuda);
    });
}

void print_uses(const MemoryPlan& memory, MemorySpace space) {
    for (int i = 0; i < memory_uses; ++i) {
        const auto use = static_cast<MemoryUse>(i);
        if (space_of(use) == space && memory[use] > 0) print(bytes_row(name_of(use), memory[use]));
    }
}

/// The memory of a rank with the libraries on its device.
struct RankMemory {
    const RankCost* rank = nullptr;
    std::int64_t fixed = 0;  ///< of driver, context and libraries without communicators
    std::int64_t nccl = 0;   ///< of its communicators, estimated

    std::int64_t reserve() const { return fixed + nccl; }
};

std::vector<RankMemory> with_libraries(RankCosts ranks, const RunPlan& plan,
                                       const PlanTarget& target, const BackendMemory& needs,
                                       const DryRunOptions& options) {
    const std::int64_t on_node =
        options.hardware ? options.hardware->node.devices : usual_ranks_per_node;
    std::vector<RankMemory> all;
    for (const RankCost& rank : ranks) {
        RankMemory& own = all.emplace_back(RankMemory{&rank, host_reserve});
        if (!target.cuda) continue;
        const MeshPlace place = place_of(rank.rank_class.ranks.front(), plan.mesh);
        own.fixed = needs.reserve;
        own.nccl = message_buffer_bytes(plan, place, mesh_connections(plan), on_node);
    }
    return all;
}

struct RequiredMemory {
    std::int64_t bytes = 0;
    std::int64_t reserve = 0;  ///< the part of `bytes` that is reserved for libraries
};

RequiredMemory required_by(const RankMemory& memory, bool cuda) {
    return {required_bytes(memory.rank->cost, cuda) + memory.reserve(), memory.reserve()};
}

/// The rank that needs the most memory.
const RankMemory& largest_of(const std::vector<RankMemory>& ranks, bool cuda) {
    return *std::max_element(ranks.begin(), ranks.end(), [&](const auto& a, const auto& b) {
        return required_by(a, cuda).bytes < required_by(b, cuda).bytes;
    });
}

void print_memory(const RankMemory& most, const RunPlan& plan, bool cuda) {
    const MemoryPlan& memory = most.rank->cost.memory;
    print("memory of the rank that needs the most (",
          to_text(place_of(most.rank->rank_class.ranks.front(), plan.mesh)), ")");
    print_uses(memory, MemorySpace::device);
    print(bytes_row("on the device", memory.on_device()));
    if (cuda) {
        print(row("context and libraries", human_bytes(most.fixed)),
              "  of the device, reserved; a run prints their actual use");
        if (most.nccl > 0)
            print(row(plan.peer_messages ? "buffers of messages" : "NCCL's buffers",
                      human_bytes(most.nccl)),
                  "  of the device, estimated");
    }
    print_uses(memory, MemorySpace::host);
    print(bytes_row("on the host", memory.total() - memory.on_device()));
    if (!cuda) print(bytes_row("total", memory.total()));
}

// ---- whether it fits ----------------------------------------------------------------------------

/// The memory available to the ranks, and its name in messages.
struct AvailableMemory {
    std::int64_t bytes = 0;
    std::string name;
    bool for_all_ranks = false;  ///< shared by all ranks; otherwise for each rank
    std::int64_t headroom = 0;   ///< the part of `bytes` to leave free
};

/// Returns nothing for GPUs of unknown size.
std::optional<AvailableMemory> available_memory(bool cuda, const DryRunOptions& options) {
    std::optional<AvailableMemory> least;
    if (options.device_memory) {
        least = {.bytes = *options.device_memory, .name = options.device_memory_name};
    } else if (!cuda) {
        for (const MemoryLimit& limit : host_memory_limits()) {
            if (!least || limit.available < least->bytes)
                least = {limit.available, limit.name, !limit.per_process};
        }
    }
    if (least) {
        least->headroom = std::llround(options.memory_headroom * static_cast<double>(least->bytes));
    }
    return least;
}

/// The memory that the rank with the greatest need requires, or all ranks together.
RequiredMemory required_by(const std::vector<RankMemory>& ranks, bool cuda, bool for_all_ranks) {
    if (!for_all_ranks) return required_by(largest_of(ranks, cuda), cuda);
    RequiredMemory sum;
    for (const RankMemory& rank : ranks) {
        const RequiredMemory own = required_by(rank, cuda);
        const std::int64_t count = std::ssize(rank.rank->rank_class.ranks);
        sum.bytes += count * own.bytes;
        sum.reserve += count * own.reserve;
    }
    return sum;
}

/// The memory that the ranks leave; below 0 if it is too small.
std::int64_t left_of(const AvailableMemory& available, const std::vector<RankMemory>& ranks,
                     bool cuda) {
    return available.bytes - required_by(ranks, cuda, available.for_all_ranks).bytes;
}

/// False if it does not fit.
bool print_fit(const AvailableMemory& available, const std::vector<RankMemory>& ranks,
               const RunSpec& spec, const PlanTarget& target, const BackendMemory& needs,
               const DryRunOptions& options) {
    const bool cuda = target.cuda;
    const RequiredMemory required = required_by(ranks, cuda, available.for_all_ranks);
    const std::string numbers =
        needed_and_available(required.bytes, required.reserve, available.bytes, available.name);
    const std::string whose = available.for_all_ranks && target.world_size > 1
                                  ? text(" (all ", target.world_size, " ranks on this machine)")
                                  : std::string();
    const std::string_view here = options.device_memory ? "" : " here";
    const std::int64_t left = left_of(available, ranks, cuda);
    if (left >= available.headroom) {
        print("fits", here, whose, ": ", numbers, ", ", human_bytes(left), " left");
        return true;
    }
    const auto fits = [&](const RunPlan& other) {
        const std::vector<RankCost> costs = measure_mesh(other, needs);
        const auto others = with_libraries(costs, other, target, needs, options);
        return left_of(available, others, cuda) >= available.headroom;
    };
    print("does not fit", here, whose, ": ", numbers,
          left < 0 ? ""
                   : text(", of which --memory-headroom keeps ", human_bytes(available.headroom),
                          " free"),
          "; ", fit_advice(spec, target, fits));
    return false;
}

// ---- work and bytes -----------------------------------------------------------------------------

RankCosts of_stage(RankCosts ranks, int stage) {
    const auto is_before = [](const RankCost& rank, int s) { return rank.rank_class.stage < s; };
    const auto begin = std::lower_bound(ranks.begin(), ranks.end(), stage, is_before);
    const auto end = std::lower_bound(begin, ranks.end(), stage + 1, is_before);
    return {begin, end};
}

/// The rank of a stage that needs the most memory, or the first one if that has more microbatches.
const StepCost& longest_step(RankCosts of_stage, bool cuda) {
    const StepCost& largest = largest_rank(of_stage, cuda).cost;
    const StepCost& first = of_stage.front().cost;
    return first.microbatches > largest.microbatches ? first : largest;
}

/// False where windows, bidirectional attention, frozen parameters, virtual tokens or tensors of
/// which a token uses a share change the count.
bool has_plain_flops(const RunPlan& plan) {
    const ModelShape& model = plan.model;
    const auto real = [](std::int64_t n) { return static_cast<double>(n); };
    return flops_per_token(plan) ==
           6 * real(parameter_count(model)) + 6 * real(model.layers) * real(model.heads) *
                                                  real(model.head_dim) * real(plan.seq_length);
}

void print_work(RankCosts ranks, const RunPlan& plan, bool cuda) {
    const int stage = largest_rank(ranks, cuda).rank_class.stage;
    const StepCost& cost = longest_step(of_stage(ranks, stage), cuda);
    const double tokens = static_cast<double>(plan.batch.global_batch_size * plan.seq_length);
    print("work per step at global_batch_size ", plan.batch.global_batch_size);
    const std::int64_t fewest = plan.microbatches(plan.batch.global_batch_size, plan.mesh.data - 1);
    print(row("microbatches per rank", text(cost.microbatches)),
          fewest < cost.microbatches ? text("  on some data ranks ", fewest) : std::string());
    print(row("GEMMs per rank", flops_text(cost.forward_and_backward.gemms)));
    print(row("attention per rank", flops_text(cost.forward_and_backward.attention)));
    print(row("model FLOPs, all ranks", flops_text(tokens * flops_per_token(plan))));
    if (has_plain_flops(plan)) {
        print(
            "model FLOPs = tokens x (6 x parameters + 6 x layers x heads x head_dim x seq_length)");
    }
    if (plan.mesh.size() == 1) return;
    print("bytes per step, for the rank that sends the most on each axis");
    for (const Axis axis : reported_axes) {
        const std::int64_t bytes = max_sent_bytes(ranks, axis, plan.mesh);
        if (bytes > 0) print(bytes_row(text("sent on ", name_of(axis)), bytes));
    }
}

// ---- stages -------------------------------------------------------------------------------------

std::string layers_of(const RunPlan& plan, std::int64_t stage) {
    std::string layers;
    for (const ChunkPart& part : chunk_parts(plan, stage)) {
        const std::int64_t last = part.first_layer + part.num_layers - 1;
        layers += text(layers.empty() ? "" : ", ", part.first_layer);
        if (part.num_layers > 1) layers += text(" to ", last);
    }
    return layers;
}

void print_stages(RankCosts ranks, const RunPlan& plan, bool cuda) {
    std::vector<Axis> used;
    std::string heads;
    for (const Axis axis : reported_axes) {
        if (max_sent_bytes(ranks, axis, plan.mesh) == 0) continue;
        used.push_back(axis);
        heads += padded_left(text("sent on ", name_of(axis)), 13);
    }
    print("stages of ", plan.mesh.size() / plan.mesh.pipeline, " ranks each; memory",
          cuda ? " on the device" : "", " and bytes of the largest rank");
    print("  stage       memory  activations        FLOPs", heads, "  layers");
    for (int stage = 0; stage < plan.mesh.pipeline; ++stage) {
        const RankCosts own = of_stage(ranks, stage);
        const StepCost& cost = largest_rank(own, cuda).cost;
        std::string sent;
        for (const Axis axis : used)
            sent += padded_left(human_bytes(max_sent_bytes(own, axis, plan.mesh)), 13);
        print(padded_left(text(stage), 7), padded_left(human_bytes(required_bytes(cost, cuda)), 13),
              padded_left(human_bytes(cost.memory[MemoryUse::saved]), 13),
              padded_left(flops_text(longest_step(own, cuda).forward_and_backward.total()), 13),
              sent, "  ", layers_of(plan, stage));
    }
}

/// Simulates one pipeline's step.
Timeline simulated(const std::string& run, const RunPlan& plan) {
    Timeline timeline = flop_timeline(plan);
    timeline.title = text(run, ": one step of one pipeline, simulated at ",
                          human_count(assumed_rate), "FLOP/s per rank");
    return timeline;
}

// ---- options ------------------------------------------------------------------------------------

/// Error (usage) for what this plan cannot answer.
void check_options(const RunPlan& plan, const PlanTarget& target, const DryRunOptions& options) {
    if (options.check && !available_memory(target.cuda, options)) {
        fail(ExitCode::usage,
             "--check: the memory of the GPUs is unknown; give --device-memory SIZE or --hardware "
             "NAME");
    }
    if (options.timeline.empty()) return;
    check_timeline_path(options.timeline);
    const std::int64_t microbatches = most_microbatches(plan);
    if (microbatches <= most_executed) return;
    fail(ExitCode::usage, "--timeline ", options.timeline.string(),
         ": a simulated step is drawn up to ", grouped(most_executed),
         " microbatches on a rank, and this one has ", grouped(microbatches),
         "; for a shorter one add --set training.global_batch_size=",
         most_executed * plan.mesh.data * plan.micro_batch_size);
}

}  // namespace

void print_dry_run(const RunSpec& spec, const RunPlan& plan, const PlanTarget& target,
                   const DryRunOptions& options) {
    check_options(plan, target, options);
    const bool cuda = target.cuda;
    const BackendMemory needs = backend_memory(cuda);
    const std::vector<RankCost> ranks = measure_mesh(plan, needs);
    std::optional<StepEstimate> estimate;
    std::optional<double> for_rings;  // seconds of a step
    if (options.hardware) {
        TracedStep traced(plan, needs);
        estimate = estimate_step(traced, ranks, *options.hardware);
        if (cuda && plan.deterministic && plan.mesh.size() > 1) {
            const double other = traced.seconds_with_any_algorithm(*options.hardware);
            for_rings = std::max(0.0, estimate->step.seconds - other);
        }
        estimate->step.timeline.title =
            text(spec.name, ": one step of one pipeline, estimated on ", options.hardware->name);
    }
    const std::vector<RankMemory> memory = with_libraries(ranks, plan, target, needs, options);
    const auto available = available_memory(cuda, options);
    if (estimate && available) estimate->memory_left_bytes = left_of(*available, memory, cuda);
    const double bubble = flop_bubble(plan);
    Timeline step;
    if (!estimate && !options.timeline.empty()) step = simulated(spec.name, plan);
    if (!options.timeline.empty()) {
        write_timeline(options.timeline, estimate ? estimate->step.timeline : step);
    }
    if (!options.json.empty()) write_output_file(options.json, to_json(*estimate));

    print(describe(plan));
    print_device(spec.device, cuda);
    print_memory(largest_of(memory, cuda), plan, cuda);
    bool fits = !available || print_fit(*available, memory, spec, target, needs, options);
    if (cuda && options.hardware) fits = print_host_fit(ranks, plan, *options.hardware) && fits;
    print_work(ranks, plan, cuda);
    if (estimate) {
        print_time(*estimate, plan);
        print_state_moves(*estimate, ranks, plan, *options.hardware);
    }
    const NodeMemory node = {std::min(target.world_size, target.ranks_per_node),
                             largest_of(memory, cuda).rank->cost.memory, !cuda};
    print_failure_cost(spec.checkpoint, node,
                       estimate ? std::optional(estimate->step.seconds) : std::nullopt);
    if (for_rings) {
        print("deterministic: true takes ", plain_seconds(*for_rings),
              " s of the step: sums over ranks go around rings, not through trees or switches");
    }
    if (plan.mesh.pipeline > 1) print_stages(ranks, plan, cuda);
    if (plan.mesh.pipeline > 1 && !estimate) {
        print("bubble ", fixed(100 * bubble, 1),
              " % = idle time / compute time, by these stages' FLOPs, with free messages");
    }
    if (options.check && !fits) {
        fail(ExitCode::usage,
             "--check: the run does not fit into the memory; the line \"does not fit\" "
             "above has what would");
    }
}

}  // namespace gptrain
