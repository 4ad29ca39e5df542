#include "engine/measure.h"

#include <algorithm>

#include "base/checked.h"
#include "checkpoint/snapshot.h"
#include "engine/engine.h"
#include "engine/long_step.h"
#include "engine/rank_training.h"
#include "model/ownership.h"
#include "schedule/stage_plan.h"

namespace gptrain {
namespace {

void reserve_snapshot(Engine& engine, const RunPlan& plan) {
    Arena& arena = engine.memory()[MemoryUse::snapshot];
    const StateSource source = [&](const StateVisitor& visitor) { engine.visit(visitor); };
    if (plan.async_checkpoint) allocate_snapshot(arena, owned_state(source));
    if (plan.local_copies) allocate_snapshot(arena, held_state(source));
    if (!plan.memory_copies) return;
    allocate_snapshot(arena, held_state(source));
    // Two saves, each of this rank's state and of another rank's, which is as large.
    const int copies = plan.mesh.size() > 1 ? 4 : 2;
    for (int copy = 0; copy < copies; ++copy)
        allocate_snapshot(engine.memory()[MemoryUse::memory_copies], held_state(source));
}

/// Gives the engine its first weights.
void start_on_meter(Engine& engine, const RunPlan& plan) {
    engine.initialise();
    if (!plan.quantised()) return;
    engine.stream_model([&](std::span<const StreamedState> states) {
        if (plan.nf4_frozen) return;  // the host converts these, and there are no values
        for (const StreamedState& state : states)
            if (state.on_filled) state.on_filled();
    });
}

/// Does what a run does between steps, and a step that is computed again in slices, with one
/// microbatch.
void evaluate_on_meter(Engine& engine, const RunPlan& plan) {
    StepBatch batch;
    batch.microbatches.resize(1);
    if (plan.mesh.expert > 1) engine.step(batch, 0, {.slices = 2, .repeats = true});
    engine.evaluate(batch);
    if (plan.scores_tasks) run_for_memory(engine.forward_passes(), 1);
    reserve_snapshot(engine, plan);
}

// ---- long steps ---------------------------------------------------------------------------------

std::int64_t grown(std::int64_t shorter, std::int64_t longer, std::int64_t groups) {
    return checked_add(shorter, checked_mul(groups, longer - shorter));
}

double grown(double shorter, double longer, std::int64_t groups) {
    return shorter + static_cast<double>(groups) * (longer - shorter);
}

MemoryPlan grown(const MemoryPlan& shorter, const MemoryPlan& longer, std::int64_t groups) {
    MemoryPlan memory;
    for (int i = 0; i < memory_uses; ++i) {
        const auto use = static_cast<MemoryUse>(i);
        memory[use] = grown(shorter[use], longer[use], groups);
    }
    return memory;
}

StepCost grown(const StepCost& shorter, const StepCost& longer, std::int64_t groups) {
    StepCost cost = longer;
    cost.memory = grown(shorter.memory, longer.memory, groups);
    Work& work = cost.forward_and_backward;
    const Work& less = shorter.forward_and_backward;
    work.gemms = grown(less.gemms, work.gemms, groups);
    work.attention = grown(less.attention, work.attention, groups);
    cost.microbatches = grown(shorter.microbatches, longer.microbatches, groups);
    for (std::size_t axis = 0; axis < cost.comm.size(); ++axis) {
        cost.comm[axis].bytes = grown(shorter.comm[axis].bytes, longer.comm[axis].bytes, groups);
    }
    return cost;
}

/// The result of `measure` for the plan or, if its step is long, the result derived from shorter
/// steps.
auto measure_any(const RunPlan& plan, const auto& measure) {
    const std::optional<LongStep> step = shortened(plan);
    if (!step) return measure(plan);
    return grown(measure(step->shorter), measure(step->longer), step->groups);
}

}  // namespace

StepCost measure_run(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs,
                     const CommunicatorFactory& make) {
    return measure_any(plan,
                       [&](const RunPlan& any) { return execute_run(any, place, needs, make); });
}

StepCost execute_run(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs,
                     const CommunicatorFactory& make) {
    MeterBackend meter(needs);
    StepCost cost;
    CommTotals totals;
    const Mesh mesh(plan.mesh, place, mesh_connections(plan), observed(make, totals));
    Engine engine(meter, mesh, plan);
    start_on_meter(engine, plan);
    meter.clear_work();
    totals.clear();

    StepBatch batch;
    batch.step = 1;
    cost.microbatches = most_microbatches(plan, place);
    batch.microbatches.resize(static_cast<std::size_t>(cost.microbatches));
    engine.step(batch);
    cost.forward_and_backward = meter.work();
    cost.comm = totals.by_axis();
    evaluate_on_meter(engine, plan);
    cost.linear_ops = meter.linear_ops();
    cost.memory = engine.memory().peaks();
    if (needs.messages_on_host) {
        // A buffer that is too small is replaced by a larger one. Repeat steps until all are large
        // enough.
        std::int64_t& held = cost.memory[MemoryUse::messages];
        while (held != mesh.held_bytes()) {
            held = mesh.held_bytes();
            engine.step(batch);
        }
    }
    return cost;
}

namespace {

/// The memory of a run whose steps have one microbatch.
MemoryPlan memory_of_one(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs) {
    MeterBackend meter(needs);
    const Mesh mesh(plan.mesh, place, mesh_connections(plan), meter_communicators());
    Engine engine(meter, mesh, plan);
    start_on_meter(engine, plan);
    StepBatch batch;
    batch.step = 1;
    batch.microbatches.resize(1);
    engine.step(batch);
    evaluate_on_meter(engine, plan);
    return engine.memory().peaks();
}

/// The memory of a run from its schedule and steps of one microbatch.
MemoryPlan memory_of_many(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs) {
    MemoryPlan memory = memory_of_one(plan, place, needs);
    const Schedule schedule = largest_schedule(plan, place);
    const std::int64_t microbatches = most_microbatches(plan, place);
    if (schedule.deferred_heads > 0 && schedule.deferred_heads < microbatches) {
        // The other microbatches have their logits in the workspace.
        RunPlan other = plan;
        other.deferred_heads = 0;
        std::int64_t& workspace = memory[MemoryUse::workspace];
        workspace = std::max(workspace, memory_of_one(other, place, needs)[MemoryUse::workspace]);
    }
    return memory;
}

}  // namespace

MemoryPlan measure_memory(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs) {
    // Host memory for messages grows with the number in flight, so run the whole step.
    if (needs.messages_on_host) return measure_run(plan, place, needs).memory;
    return measure_any(plan, [&](const RunPlan& any) { return memory_of_many(any, place, needs); });
}

MemoryPlan lasting_memory(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs) {
    MeterBackend meter(needs);
    const Mesh mesh(plan.mesh, place, mesh_connections(plan), meter_communicators());
    return Engine(meter, mesh, plan).memory().peaks();
}

namespace {

/// The trace of the step after `warmup_steps` steps of one microbatch.
StepTrace trace(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs,
                int warmup_steps) {
    MeterBackend meter(needs);
    TraceRecorder recorder;
    meter.listen(recorder);
    const Mesh mesh(plan.mesh, place, mesh_connections(plan),
                    observed(meter_communicators(), recorder));
    Engine engine(meter, mesh, plan);
    engine.listen(recorder);
    start_on_meter(engine, plan);
    StepBatch batch;
    batch.step = 1;
    batch.microbatches.resize(1);
    for (int i = 0; i < warmup_steps; ++i)
        engine.step(batch);
    batch.microbatches.resize(static_cast<std::size_t>(most_microbatches(plan, place)));
    recorder.begin();
    engine.step(batch);
    return recorder.take();
}

}  // namespace

StepTrace trace_step(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs) {
    return trace(plan, place, needs, 1);
}

StepTrace trace_first_step(const RunPlan& plan, const MeshPlace& place,
                           const BackendMemory& needs) {
    return trace(plan, place, needs, 0);
}

std::vector<OwnSizes> own_sizes(const RunPlan& plan, int stage, int tp) {
    const auto mesh_at = [&](int dp, int cp) {
        const MeshPlace place = {.dp = dp, .pp = stage, .cp = cp, .tp = tp};
        return Mesh(plan.mesh, place, {}, meter_communicators());
    };
    const ParameterLayout layout = training_layout(plan, mesh_at(0, 0));
    OwnSizes held;
    for (const Parameter& parameter : layout.parameters)
        held.push_back(parameter.shard.elements());
    std::vector<OwnSizes> all;
    for (int rank = 0; rank < plan.mesh.data * plan.mesh.context; ++rank) {
        const int context = narrow<int>(plan.mesh.context);
        const Mesh mesh = mesh_at(rank / context, rank % context);
        OwnSizes& sizes = all.emplace_back(held);
        for (const OwnedRange& range : owned_ranges(layout, mesh)) {
            const Parameter& parameter = *range.parameter;
            const bool saved = range.shard.owned && owner_of(parameter.sharing, mesh).saves;
            const std::int64_t sum =
                parameter.also_sums ? static_cast<std::int64_t>(*parameter.also_sums) : -1;
            sizes.insert(sizes.end(), {range.shard.elements(), sum, saved ? 1 : 0});
            const Shape& global = parameter.shard.global;
            // Muon's work depends on the shape of the whole matrix.
            if (parameter.update == Update::muon) sizes.push_back(global[global.rank() - 2]);
        }
        for (const OwnedRange& range : frozen_ranges(layout, mesh))
            sizes.insert(sizes.end(), {range.shard.elements(), range.shard.owned ? 1 : 0});
    }
    return all;
}

}  // namespace gptrain
