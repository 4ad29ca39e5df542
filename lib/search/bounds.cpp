#include "search/bounds.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/long_step.h"
#include "hardware/message_time.h"
#include "planner/flop_costs.h"
#include "planner/long_times.h"
#include "planner/step_prices.h"
#include "schedule/compute_order.h"
#include "schedule/schedule.h"
#include "schedule/stage_plan.h"

namespace gptrain {
namespace {

/// Slots for activations on a stage, at least.
std::int64_t slots_of(const RunPlan& plan, std::int64_t stage) {
    const std::int64_t count = most_microbatches(plan);
    const std::int64_t stages = plan.mesh.pipeline;
    switch (plan.schedule) {
        case ScheduleKind::gpipe: return count;
        case ScheduleKind::one_f_one_b: return std::min(count, stages - stage);
        case ScheduleKind::zero_bubble: return std::min(count, stages);
        // Before the first backward: a group of microbatches through all chunks but the last.
        case ScheduleKind::interleaved_one_f_one_b:
            return std::min(count, stages) * (plan.virtual_stages - 1);
    }
    return 1;
}

LayerCounts counts_of(const RunPlan& plan, const ChunkPart& part) {
    return layer_counts(plan.model, part.first_layer, part.num_layers);
}

/// Bytes of a stage's weights, gradients and optimizer, and of its activations.
double stage_bytes(const ChunkParts<LayerBytes>& parts, const RunPlan& plan, std::int64_t stage) {
    const MeshShape& mesh = plan.mesh;
    const std::int64_t copies = mesh.data * mesh.context;
    const std::int64_t of_experts = mesh.expert > 1 ? copies * mesh.tensor / mesh.expert : 1;
    const std::int64_t owners = mesh.shard > 1 ? mesh.shard : copies;
    const auto most_sharers = static_cast<double>(std::max(owners, of_experts));
    const auto sharers = [&](Sharded part) { return plan.shard >= part ? most_sharers : 1.0; };
    LayerBytes held;
    double slot = 0;
    double head = 0;
    for (const ChunkPart& part : chunk_parts(plan, stage)) {
        const LayerBytes body = parts.of(counts_of(plan, part), part.embedding, false);
        held += body;
        slot = std::max(slot, body.saved);
        if (!part.head) continue;
        head = parts.head.saved;
        // A tied embedding exists once if both ends are here.
        const bool again = plan.model.tie_embeddings && !has_tied_ends(plan);
        if (!again) held += parts.head;
    }
    // State in host memory passes through windows, which are left out.
    const OffloadSpec& offload = plan.offload;
    if (offload.optimizer || offload.main_weights) held.optimizer = 0;
    if (offload.activations != OffloadedActivations::off) slot = 0;
    return held.weights / sharers(Sharded::weights) + held.grads / sharers(Sharded::gradients) +
           held.optimizer / sharers(Sharded::optimizer) + head +
           static_cast<double>(slots_of(plan, stage)) * slot;
}

double work_of(const ChunkCost& cost) {
    return cost.forward + cost.backward_inputs + cost.backward_weights;
}

/// Seconds of an operation of all ranks that share a chunk of `bytes`.
double shared_seconds(const RunPlan& plan, std::string_view operation, double bytes,
                      const HardwareProfile& hardware) {
    const auto ranks = static_cast<double>(plan.mesh.data * plan.mesh.context);
    const GroupLayout group =
        group_layout(Axis::dp_cp, plan.mesh, ranks_per_node(hardware, plan.mesh.size()));
    const double rounds = operation == "all_reduce" ? 2 : 1;
    return message_seconds(hardware.node, group, operation, rounds * bytes * (ranks - 1) / ranks);
}

}  // namespace

double memory_bound(const LayerMemory& costs, const RunPlan& plan) {
    double most = 0;
    for (std::int64_t stage = 0; stage < plan.mesh.pipeline; ++stage)
        most = std::max(most, stage_bytes(costs.bytes, plan, stage));
    return most + costs.workspace;
}

StepCosts step_costs(const LayerTimes& times, const LayerMemory& memory, const RunPlan& plan,
                     const HardwareProfile& hardware) {
    StepCosts costs;
    const std::size_t chunks = plan.chunk_layers.size();
    const double crowding = least_crowding(hardware, plan.mesh) / times.crowding;
    std::int64_t next_layer = 0;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        const LayerCounts layers = layer_counts(plan.model, next_layer, plan.chunk_layers[chunk]);
        costs.pipeline.chunks.push_back(crowding *
                                        times.seconds.of(layers, chunk == 0, chunk + 1 == chunks));
        next_layer += plan.chunk_layers[chunk];
    }
    // Every microbatch overwrites the gradients in a window.
    for (ChunkCost& chunk : costs.pipeline.chunks) {
        if (!plan.shards_gradients()) break;
        chunk.backward_weights =
            std::max(0.0, chunk.backward_weights - std::exchange(chunk.first_saving, 0));
    }
    const std::int64_t stages = plan.mesh.pipeline;
    costs.last_sums.resize(static_cast<std::size_t>(stages));
    if (stages == 1) return costs;
    PipelineTraces first;
    first.mesh = plan.mesh;
    first.stages.resize(1);
    first.stages.front().messages = {times.boundary};
    costs.pipeline.message = price_stage(first, 0, hardware).messages.front().seconds;
    // Ranks that divide the experts sum their gradients over other ranks than the rest.
    const bool several_sums = plan.mesh.expert > 1;
    if (!plan.reduces_whole_chunks() || several_sums || plan.mesh.data * plan.mesh.context == 1)
        return costs;

    const auto bytes_of = [&](const ChunkPart& part) {
        // A deferred head is summed apart.
        const bool head = part.head && plan.deferred_heads == 0;
        return memory.bytes.of(counts_of(plan, part), part.embedding, head);
    };
    // Groups of owners sum and send in other groups.
    if (plan.mesh.shard > 1) return costs;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
        double least = std::numeric_limits<double>::infinity();
        for (const ChunkPart& part : chunk_parts(plan, stage))
            least = std::min(least, bytes_of(part).grads);
        costs.last_sums[static_cast<std::size_t>(stage)] = shared_seconds(
            plan, plan.shard == Sharded::none ? "all_reduce" : "reduce_scatter", least, hardware);
    }
    // Muon's owners send their weights one by one, which takes a different time.
    if (plan.shard != Sharded::none && !plan.parameters.muon) {
        // The weights of trained parameters, whose gradients are fp32.
        const double weights = bytes_of(chunk_parts(plan, 0).front()).grads *
                               static_cast<double>(size_of(plan.compute)) / size_of(DType::f32);
        costs.late_start =
            std::max(0.0, shared_seconds(plan, "all_gather", plan.fp8 ? 0 : weights, hardware) -
                              costs.pipeline.chunks.front().forward);
    }
    return costs;
}

StepCosts ideal_costs(const RunPlan& plan, const HardwareProfile& hardware) {
    const DeviceProfile& device = hardware.device;
    const DType dtype = plan.fp8 ? DType::f8e4m3 : plan.compute;
    double rate = device.peak_flops.of(dtype) * device.gemm_efficiency.of(dtype);
    for (const AttentionRate& attention : device.attention)
        rate = std::max({rate, attention.forward, attention.backward});
    // A rank that shares a core has all of it while the others wait.
    rate *= std::max(1.0, devices_per_rank(hardware, plan.mesh.size()));
    StepCosts costs;
    costs.pipeline = flop_costs(plan);
    for (ChunkCost& chunk : costs.pipeline.chunks)
        chunk = assumed_rate / rate * chunk;
    costs.last_sums.resize(static_cast<std::size_t>(plan.mesh.pipeline));
    return costs;
}

double work_bound(const StepCosts& costs, const RunPlan& plan) {
    const PipelineShape shape = pipeline_of(plan, most_microbatches(plan));
    const auto stages = static_cast<std::size_t>(plan.mesh.pipeline);
    std::vector<double> work(stages);
    std::vector<double> before(stages);
    double way = 0;  // of the last microbatch through the chunks so far, there and back
    const bool only_one = shape.microbatches == 1;
    const bool defers = defers_weights(shape.kind);
    for (std::int64_t chunk = 0; chunk < shape.model_chunks(); ++chunk) {
        const ChunkPlace place = place_at(shape, chunk);
        const ChunkCost& cost = costs.pipeline.chunks[static_cast<std::size_t>(chunk)];
        if (place.chunk == 0) before[static_cast<std::size_t>(place.stage)] = way;
        const double saving = cost.first_saving;
        work[static_cast<std::size_t>(place.stage)] +=
            static_cast<double>(shape.microbatches) * work_of(cost) - saving;
        // Deferred weight gradients fill the time in which the last gradients travel.
        way += defers ? cost.forward + costs.pipeline.message
                      : work_of(cost) - (only_one ? saving : 0) + 2 * costs.pipeline.message;
    }
    double most = 0;
    for (std::size_t stage = 0; stage < stages; ++stage) {
        // Deferred weight gradients of the head fill the same time.
        const double later = static_cast<double>(deferred_heads(shape, std::int64_t(stage))) *
                             costs.pipeline.chunks.back().head_weights;
        const double own = work[stage] - later;
        most = std::max(most, before[stage] + own + (defers ? costs.last_sums[stage] : 0));
    }
    return costs.late_start + most + (defers ? 0 : costs.last_sums.front());
}

double schedule_bound(const StepCosts& costs, const RunPlan& plan) {
    const PipelineShape shape = pipeline_of(plan, most_microbatches(plan));
    const auto simulated = [&](std::int64_t microbatches) {
        PipelineShape some = shape;
        some.microbatches = microbatches;
        const Timeline timeline = simulate(make_pipeline(some), costs.pipeline);
        double end = 0;
        for (const TimelineEvent& event : timeline.events) {
            if (!computes(event.kind)) continue;
            const bool head = event.kind == ActionKind::head_weights;
            const double sum = costs.last_sums[static_cast<std::size_t>(event.stage)];
            end = std::max(end, event.end + (head ? 0 : sum));
        }
        return SimulatedStep{tracks_of(timeline), {end}};
    };
    return costs.late_start + times_of_step(shape, full_microbatches(plan), simulated).front();
}

}  // namespace gptrain
