#include "search/layer_costs.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "engine/measure.h"
#include "planner/mesh_cost.h"
#include "planner/step_time.h"
#include "search/space.h"
#include "spec/model_tensors.h"

namespace gptrain {

namespace {

// A pipeline of two stages, whose middle microbatch waits for no weights, reduces no gradients and
// adds to those of the one before.
constexpr std::int64_t small_stages = 2;
constexpr std::int64_t timed_microbatches = 3;
constexpr std::int64_t earliest = 0;
constexpr std::int64_t middle = 1;
// The layers of a stage. FP8 leaves out the first and the last layer of the model, so stages of two
// layers are the smallest that differ from larger ones by their number of layers alone.
constexpr std::int64_t few = 2;

/// The costs of small pipelines whose first stage has layers of one kind.
template <class Cost>
struct SmallCosts {
    bool experts = false;  ///< in the first stage
    Cost first;            ///< of the stages
    Cost last;
    Cost first_with_more;  ///< with one layer more
};

/// The costs of the parts, from those of a small pipeline for each kind of layers.
template <class Cost>
ChunkParts<Cost> parts_of(const std::vector<SmallCosts<Cost>>& costs) {
    ChunkParts<Cost> parts{};
    for (const SmallCosts<Cost>& small : costs) {
        Cost& layer = parts.layer[small.experts ? 1 : 0];
        layer = small.first_with_more;
        layer += -1.0 * small.first;
    }
    const SmallCosts<Cost>& any = costs.front();
    const auto layers = [&](bool experts) {
        return static_cast<double>(few) * parts.layer[experts ? 1 : 0];
    };
    parts.embedding = any.first;
    parts.embedding += -1.0 * layers(any.experts);
    parts.head = any.last;
    parts.head += -1.0 * layers(costs.back().experts);
    return parts;
}

/// A microbatch's action of a kind; 0 if the stage has none.
double action_seconds(const StepTrace& trace, ActionKind kind, std::int64_t microbatch,
                      const PipelineTraces& place, const HardwareProfile& hardware) {
    for (const StepTrace::Part& part : trace.parts) {
        if (!part.action || part.action->kind != kind || part.action->microbatch != microbatch)
            continue;
        PipelineTraces alone = place;
        alone.stages = {{.ops = trace.ops,
                         .messages = trace.messages,
                         .bodies = {trace.bodies[static_cast<std::size_t>(part.body)]},
                         .parts = {{.body = 0, .action = part.action}}}};
        return time_step(alone, hardware).seconds;
    }
    return 0;
}

ChunkCost chunk_seconds(const StepTrace& trace, const PipelineTraces& place,
                        const HardwareProfile& hardware) {
    using enum ActionKind;
    const auto seconds = [&](ActionKind kind, std::int64_t microbatch = middle) {
        return action_seconds(trace, kind, microbatch, place, hardware);
    };
    return {.forward = seconds(forward),
            .backward_inputs = seconds(backward) + seconds(backward_inputs),
            .backward_weights = seconds(backward_weights),
            .first_saving = seconds(backward) - seconds(backward, earliest) +
                            seconds(backward_weights) - seconds(backward_weights, earliest)};
}

LayerBytes stage_bytes(const MemoryPlan& memory) {
    const auto bytes = [&](MemoryUse use) { return static_cast<double>(memory[use]); };
    return {.weights = bytes(MemoryUse::weights),
            .grads = bytes(MemoryUse::main_grads),
            .optimizer = bytes(MemoryUse::main_params) + bytes(MemoryUse::optimizer),
            .saved = bytes(MemoryUse::saved)};
}

const TraceMessage& boundary_of(const StepTrace& trace) {
    const auto found =
        std::find_if(trace.messages.begin(), trace.messages.end(),
                     [](const TraceMessage& message) { return message.peer != Action::none; });
    GPTRAIN_CHECK(found != trace.messages.end(), "a stage sends nothing to the next one");
    return *found;
}

}  // namespace

LayerCounts layer_counts(const ModelShape& model, std::int64_t first, std::int64_t count) {
    const std::int64_t before = model.expert_layers(first);
    const std::int64_t experts = model.expert_layers(first + count) - before;
    return {count - experts, experts};
}

LayerCostTable::Key LayerCostTable::key_of(const Choices& candidate) {
    const ParallelSpec& parallel = candidate.parallel;
    return {parallel.expert,
            parallel.tensor,
            parallel.sequence_parallel,
            parallel.overlap_tensor,
            parallel.context,
            parallel.context_method,
            candidate.micro_batch_size,
            candidate.recompute,
            candidate.compute,
            candidate.fp8_recipe,
            candidate.defers_weights()};
}

std::vector<std::string> LayerCostTable::frozen_in_any_layer() const {
    if (spec_.training.frozen.empty()) return {};
    RunSpec spec = spec_;
    spec.parallel = {};
    spec.training.global_batch_size.reset();
    spec.training.rampup = {};
    spec.fault_injection.reset();
    PlanTarget target = target_;
    target.world_size = 1;
    const RunPlan plan = make_plan(spec, target);
    std::set<std::string> frozen;
    const auto add = [&](const std::vector<TensorGroup>& groups, std::string_view layer) {
        for (const TensorGroup& group : groups) {
            for (const ModelTensor& tensor : group.tensors) {
                if (plan.parameters.trains(tensor.name)) continue;
                frozen.insert(text(layer.empty() ? "" : "h.*.", tensor.name.substr(layer.size())));
            }
        }
    };
    for (std::int64_t layer = 0; layer < plan.model.layers; ++layer)
        add(layer_tensors(plan.model, {layer}), BlockId{layer}.name + ".");
    add(embedding_tensors(plan.model), "");
    add(head_tensors(plan.model), "");
    return {frozen.begin(), frozen.end()};
}

std::vector<bool> LayerCostTable::kinds() const {
    const ModelSpec& model = spec_.model;
    const std::int64_t with_experts = model.expert_layers(model.num_layers);
    if (with_experts == 0) return {false};
    if (with_experts == model.num_layers) return {true};
    return {false, true};
}

std::int64_t LayerCostTable::data_ranks(const ParallelSpec& parallel) {
    const std::int64_t near = parallel.context * parallel.tensor;
    return std::max<std::int64_t>(parallel.expert / near, 1);
}

RunPlan LayerCostTable::small_plan(const Choices& candidate, bool experts,
                                   std::int64_t layers_per_stage, std::int64_t microbatches) const {
    Choices choices = candidate;
    choices.parallel.pipeline = small_stages;
    choices.parallel.virtual_stages = 1;
    choices.parallel.schedule = group_schedule(candidate.defers_weights());
    choices.parallel.layers = {layers_per_stage, layers_per_stage};
    choices.parallel.shard = Sharded::none;
    choices.parallel.shard_ranks.reset();
    choices.grad_reduce = Precision::fp32;
    choices.offload = {};
    choices.parallel.data = data_ranks(candidate.parallel);
    choices.global_batch_size = microbatches * candidate.micro_batch_size * *choices.parallel.data;
    RunSpec spec = with_choices(spec_, choices);
    spec.model.num_layers = small_stages * layers_per_stage;
    if (kinds().size() > 1) {
        std::vector<std::int64_t> layers(static_cast<std::size_t>(layers_per_stage));
        std::iota(layers.begin(), layers.end(), experts ? 0 : layers_per_stage);
        spec.model.experts->layers = {.list = std::move(layers)};
    } else if (experts) {
        spec.model.experts->layers = {};
    }
    spec.model.full_attention_layers.clear();  // with a window a layer takes the least time
    spec.model.unrotated_layers.clear();       // and without rotations about the same
    spec.training.rampup = {};
    spec.fault_injection.reset();
    spec.training.frozen.clear();
    PlanTarget target = target_;
    target.world_size = min_ranks(spec.parallel);
    RunPlan plan = make_plan(spec, target);
    plan.deferred_heads = 0;
    plan.parameters.frozen = frozen_in_any_layer();
    return plan;
}

LayerMemory LayerCostTable::memory_of(const Choices& candidate) const {
    std::vector<SmallCosts<LayerBytes>> costs;
    std::int64_t workspace = std::numeric_limits<std::int64_t>::max();
    for (const bool experts : kinds()) {
        RunPlan plan = small_plan(candidate, experts, few, 1);
        const MemoryPlan first = measure_memory(plan, {.pp = 0}, needs_);
        const MemoryPlan last = measure_memory(plan, {.pp = 1}, needs_);
        const MemoryPlan more =
            lasting_memory(small_plan(candidate, experts, few + 1, 1), {.pp = 0}, needs_);
        costs.push_back({experts, stage_bytes(first), stage_bytes(last), stage_bytes(more)});
        workspace = std::min({workspace, first[MemoryUse::workspace], last[MemoryUse::workspace]});
        // A rank with no matrix of Muon's has none in its workspace either.
        if (!std::exchange(plan.parameters.muon, false)) continue;
        for (const int stage : {0, 1}) {
            const MemoryPlan without = measure_memory(plan, {.pp = stage}, needs_);
            workspace = std::min(workspace, without[MemoryUse::workspace]);
        }
    }
    return {.bytes = parts_of(costs), .workspace = static_cast<double>(workspace)};
}

LayerTimes LayerCostTable::times_of(const Choices& candidate) const {
    // The deepest pipeline that any candidate can have, with one stage at work: the others leave it
    // their cores. Groups of tp, cp and experts are placed on the nodes as in every candidate.
    const ParallelSpec& parallel = candidate.parallel;
    PipelineTraces place;
    const std::int64_t data = data_ranks(parallel);
    place.mesh = {.data = data,
                  .pipeline = target_.world_size / (data * parallel.context * parallel.tensor),
                  .context = parallel.context,
                  .tensor = parallel.tensor,
                  .expert = parallel.expert};
    place.free_boundary = true;  // bounds add messages between stages themselves
    HardwareProfile hardware = hardware_;
    // In a whole step the host is ahead of the device.
    hardware.device.issue_seconds = hardware.device.message_issue_seconds = 0;
    LayerTimes times;
    const auto measure = [&](bool experts, std::int64_t layers, int stage) {
        RunPlan plan = small_plan(candidate, experts, layers, timed_microbatches);
        place.mesh.kv = plan.mesh.kv;
        place.only_rings = plan.deterministic;
        place.peer_messages = plan.peer_messages;
        const StepTrace trace = trace_first_step(plan, busiest_rank(plan, stage), needs_);
        if (stage == 0) times.boundary = boundary_of(trace);
        ChunkCost cost = chunk_seconds(trace, place, hardware);
        if (stage == 0) return cost;
        plan.deferred_heads = timed_microbatches;
        const StepTrace deferred = trace_first_step(plan, busiest_rank(plan, stage), needs_);
        cost.head_weights = cost.forward - chunk_seconds(deferred, place, hardware).forward;
        return cost;
    };
    std::vector<SmallCosts<ChunkCost>> costs;
    for (const bool experts : kinds()) {
        // One kind tells what the head takes.
        const ChunkCost last = costs.empty() ? measure(experts, few, 1) : ChunkCost();
        costs.push_back({experts, measure(experts, few, 0), last, measure(experts, few + 1, 0)});
    }
    times.seconds = parts_of(costs);
    times.crowding = least_crowding(hardware_, place.mesh);
    return times;
}

template <class Costs>
LayerCostTable::Entry<Costs>& LayerCostTable::entry(std::map<Key, Entry<Costs>>& table,
                                                    const Key& key) {
    const std::lock_guard lock(mutex_);
    return table[key];
}

const LayerMemory& LayerCostTable::memory(const Choices& candidate) {
    Key key = key_of(candidate);
    std::get<OverlapTensor>(key) = OverlapTensor::off;  // pieces lie in the memory of the whole
    Entry<LayerMemory>& found = entry(memory_, key);
    std::call_once(found.measured, [&] { found.costs = memory_of(candidate); });
    return found.costs;
}

const LayerTimes& LayerCostTable::times(const Choices& candidate) {
    Entry<LayerTimes>& found = entry(times_, key_of(candidate));
    std::call_once(found.measured, [&] { found.costs = times_of(candidate); });
    return found.costs;
}

LayerTimes LayerCostTable::least_times(const Choices& candidate) {
    constexpr std::int64_t large = 16;
    const bool in_pieces = candidate.parallel.overlap_tensor == OverlapTensor::on;
    Choices timed = candidate;
    timed.recompute = Recompute::none;
    // Pieces hide messages of input gradients only where weight gradients do not.
    if (candidate.defers_weights() && !in_pieces) timed.parallel.schedule = group_schedule(false);
    std::int64_t count = std::max<std::int64_t>(large / candidate.micro_batch_size, 1);
    // An odd number of sequences cannot be cut.
    if (in_pieces && count % 2 == 1) count = 1;
    timed.micro_batch_size *= count;
    LayerTimes least = times(timed);
    const auto divide = [&](ChunkCost& cost) {
        const double saving = cost.first_saving;  // once a step
        cost = 1 / static_cast<double>(count) * cost;
        cost.first_saving = saving;
    };
    for (ChunkCost& layer : least.seconds.layer)
        divide(layer);
    divide(least.seconds.embedding);
    divide(least.seconds.head);
    least.boundary.bytes /= count;
    return least;
}

}  // namespace gptrain
