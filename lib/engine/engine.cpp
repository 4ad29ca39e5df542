#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checkpoint/snapshot.h"
#include "model/ownership.h"
#include "schedule/stage_plan.h"

namespace gptrain {
namespace {

// fp16: the loss scale of the first step, and the number of clean steps after which it doubles.
constexpr double first_loss_scale = 65536;
constexpr std::int64_t loss_scale_interval = 1000;

/// Microbatches of the rank in a step at the final batch size.
std::int64_t most_microbatches(const RunPlan& plan, const MeshPlace& place) {
    return plan.microbatches(plan.batch.global_batch_size, place.dp);
}

/// The actions of a step at the final batch size, which needs the most memory.
Schedule largest_schedule(const RunPlan& plan, const MeshPlace& place) {
    return make_schedule(pipeline_of(plan, most_microbatches(plan, place)), place.pp);
}

Tensor reserve_state_copy(Memory& memory) {
    return memory[MemoryUse::readback].allocate(DType::u8, {sizeof(StepState)});
}

std::int64_t shard_count(const RunPlan& plan, const Mesh& mesh) {
    return plan.optimizer.shard ? mesh.dp_cp().size() : 1;
}

/// The number of parts that buckets are split into. If gradients are not reduced in fp32, they are
/// reduced in parts even if the optimizer is not sharded.
std::int64_t bucket_parts(const RunPlan& plan, const Mesh& mesh) {
    return plan.grad_reduce == DType::f32 ? shard_count(plan, mesh) : mesh.dp_cp().size();
}

ParameterLayout training_layout(const RunPlan& plan, const Mesh& mesh) {
    LayoutRequest request = layout_request(plan, mesh.place());
    request.shards = bucket_parts(plan, mesh);
    request.fp8 = plan.fp8;
    if (plan.int8_frozen) request.int8 = Int8Matrices::frozen;
    request.whole_chunks = plan.reduces_whole_chunks();
    request.defers_head = plan.deferred_heads > 0;
    request.rules = plan.parameters;
    request.whole_parameters = plan.parameters.muon && shard_count(plan, mesh) > 1;
    return make_layout(request);
}

StageSizes stage_sizes(const RunPlan& plan, const MeshPlace& place) {
    const Schedule schedule = largest_schedule(plan, place);
    const Schedule evaluation =
        make_forward_schedule(pipeline_of(plan, most_microbatches(plan, place)), place.pp);
    return {.slots = schedule.slots,
            .head_slots = schedule.head_slots,
            .deferred_heads = schedule.deferred_heads,
            .buffers = std::max(schedule.buffers, evaluation.buffers),
            .saved = {.seq_length = plan.local_length(),
                      .recompute = plan.recompute,
                      .defer_weights = schedule.defers_weights},
            .stream = stream_slice(plan, place),
            .masks = batch_masks(plan)};
}

}  // namespace

Engine::Engine(Backend& backend, const Mesh& mesh, const RunPlan& plan,
               const std::optional<MemoryPlan>& memory)
    : backend_(backend),
      mesh_(mesh),
      plan_(plan),
      memory_(backend, memory),
      sizes_(stage_sizes(plan, mesh.place())),
      state_(reserve_step_state(memory_, sizes_.slots)),
      checksum_(memory_[MemoryUse::batch].allocate(DType::i64, {1})),
      state_copies_{reserve_state_copy(memory_), reserve_state_copy(memory_)},
      context_(model_context(backend, mesh, memory_, plan)),
      parameters_(memory_, training_layout(plan, mesh), plan.compute, Parameters::Use::training,
                  plan.messages_in_order),
      chunks_(make_chunks(context_, parameters_, plan)),
      buckets_(backend, memory_, parameters_, mesh.dp_cp(),
               {.shard = plan.optimizer.shard,
                .dtype = plan.grad_reduce,
                .max_in_flight = plan.messages_in_order ? std::size_t{0} : 2}),
      grad_sums_(backend, mesh, parameters_, shard_count(plan, mesh) > 1),
      optimizer_(backend, memory_, mesh, parameters_, plan.optimizer),
      stage_memory_(reserve_stage(context_, chunks_, sizes_)),
      executor_(make_stage(context_, chunks_, parameters_, plan, stage_memory_), state_, &buckets_),
      policy_{.clip_grad = plan.optimizer.clip_grad,
              .growth_interval = plan.compute == DType::f16 ? loss_scale_interval : 0} {
    executor_.listen(listeners_);
    if (plan.scores_tasks)
        scorer_.emplace(context_, chunks_, parameters_, plan, state_, stage_memory_);
    provide_backend_memory(backend, memory_, op_limits(plan));
}

void Engine::initialise() {
    optimizer_.initialise(plan_.seed);
    write_state(initial_step_state(plan_.compute == DType::f16 ? first_loss_scale : 1));
}

void Engine::write_state(const StepState& state) {
    backend_.upload(state_.state, std::as_bytes(std::span(&state, 1)));
}

Engine::StatePoint Engine::mark_state() {
    const Tensor copy = state_copies_[next_copy_];
    next_copy_ = (next_copy_ + 1) % state_copies_.size();
    backend_.copy(copy, state_.state);
    return {.copy = copy, .mark = backend_.mark()};
}

StepState Engine::state_at(const StatePoint& point) const {
    backend_.wait(point.mark);
    StepState state{};
    std::memcpy(&state, point.copy.data(), sizeof state);
    return state;
}

void Engine::restore(const StepState& carried) {
    optimizer_.publish_weights();
    write_state(carried);
}

const Schedule& Engine::schedule_of(std::int64_t microbatches) {
    if (scheduled_ != microbatches) {
        schedule_ = make_schedule(pipeline_of(plan_, microbatches), mesh_.place().pp);
        scheduled_ = microbatches;
    }
    return schedule_;
}

void Engine::step(const StepBatch& batch, double loss_limit) {
    StepState start{};
    start.step = batch.step;
    start.token_weight_sum = batch.weight_sum;
    start.learning_rate = plan_.lr.at(batch.step);
    start.loss_limit = loss_limit;
    backend_.run(BeginStep{.step = state_, .given = start});
    mesh_.dp().all_reduce(state_.token_weight_sum(), Reduce::sum).wait();
    optimizer_.clear_gradients();
    executor_.train(schedule_of(std::ssize(batch.microbatches)), batch.microbatches);
    {
        const ProfileRange range(backend_, "gradient sums");
        grad_sums_.sum_all(memory_[MemoryUse::workspace]);
    }
    const ProfileRange range(backend_, "optimizer");
    optimizer_.step(state_, policy_);
}

LossSum Engine::evaluate(const StepBatch& batch) {
    return batch_loss(context_, plan_, executor_, state_, batch);
}

void Engine::visit(const StateVisitor& visitor) const {
    optimizer_.visit([&](const NamedState& state) {
        if (!plan_.parameters.adapter || is_adapter_parameter(state.shard.name)) visitor(state);
    });
}

void Engine::visit_model(const StateVisitor& visitor) const {
    optimizer_.visit([&](const NamedState& state) {
        if (state.group == "weight" && !is_adapter_parameter(state.shard.name)) visitor(state);
    });
}

void Engine::stream_model(const std::function<void(std::span<const StreamedState>)>& load) {
    std::vector<StreamedState> states;
    visit_model([&](const NamedState& state) {
        states.push_back({std::string(state.group), state.shard, state.values, {}});
    });
    const ArenaFrame frame(memory_[MemoryUse::workspace]);
    std::int64_t largest = 0;
    const auto only_int8 = [](const Parameter& parameter) { return !parameter.in_compute_dtype; };
    for (const Parameter& parameter : parameters_.layout().parameters)
        if (only_int8(parameter)) largest = std::max(largest, parameter.shard.elements());
    const Tensor memory = memory_[MemoryUse::workspace].allocate(DType::f32, {largest});
    for (const Parameter& parameter : parameters_.layout().parameters) {
        if (!only_int8(parameter)) continue;
        const Tensor values = memory.slice(0, 0, parameter.shard.elements());
        states.push_back({"weight", parameter.shard, values, [this, &parameter, values] {
                              parameters_.set(backend_, parameter, values);
                          }});
    }
    load(states);
}

void Engine::visit_flat(std::string_view group, const Parameter& parameter, const Tensor& flat,
                        const StateVisitor& visitor) {
    visitor({group, parameter.shard, flat.slice(0, parameter.begin, parameter.shard.elements())});
}

void Engine::visit_gradients(const StateVisitor& visitor) const {
    for (const Parameter& parameter : parameters_.layout().parameters) {
        if (parameter.trained())
            visit_flat("main_grad", parameter, parameters_.main_grads(), visitor);
    }
}

void Engine::visit_weights(const StateVisitor& visitor) {
    parameters_.wait_for_all();
    for (const Parameter& parameter : parameters_.layout().parameters) {
        if (parameter.in_compute_dtype)
            visit_flat("weight", parameter, parameters_.weights(), visitor);
    }
}

std::int64_t Engine::weights_checksum() {
    parameters_.wait_for_all();
    std::int64_t sum = 0;
    const auto bytes = std::as_writable_bytes(std::span(&sum, 1));
    backend_.upload(checksum_, bytes);
    for (const Tensor& buffer : parameters_.buffers())
        backend_.run(Checksum{.x = buffer, .sum = checksum_});
    backend_.download(bytes, checksum_);
    return sum;
}

double Engine::gradient_norm() {
    backend_.run(BeginStep{.step = state_, .given = {}});
    optimizer_.sum_gradient_squares(state_);
    return std::sqrt(read_state().grad_square_sum);
}

namespace {

void reserve_snapshot(Engine& engine, const RunPlan& plan) {
    Arena& arena = engine.memory()[MemoryUse::snapshot];
    const StateSource source = [&](const StateVisitor& visitor) { engine.visit(visitor); };
    if (plan.async_checkpoint) allocate_snapshot(arena, owned_state(source));
    if (plan.local_copies) allocate_snapshot(arena, held_state(source));
}

/// Gives the engine its first weights.
void start_on_meter(Engine& engine, const RunPlan& plan) {
    engine.initialise();
    if (!plan.int8_frozen) return;
    engine.stream_model([](std::span<const StreamedState> states) {
        for (const StreamedState& state : states)
            if (state.on_filled) state.on_filled();
    });
}

/// What a run does between steps, with one microbatch.
void evaluate_on_meter(Engine& engine, const RunPlan& plan) {
    StepBatch batch;
    batch.microbatches.resize(1);
    engine.evaluate(batch);
    if (plan.scores_tasks)
        engine.scorer().score(batch.microbatches, plan.seq_length, engine.listeners(),
                              [](auto&&...) {});
    reserve_snapshot(engine, plan);
}

}  // namespace

StepCost measure_run(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs,
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

}  // namespace

MemoryPlan measure_memory(const RunPlan& plan, const MeshPlace& place, const BackendMemory& needs) {
    // Host memory for messages grows with the number in flight, so run the whole step.
    if (needs.messages_on_host) return measure_run(plan, place, needs).memory;
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
    const Mesh mesh(plan.mesh, {.pp = stage, .tp = tp}, {}, meter_communicators());
    const ParameterLayout layout = training_layout(plan, mesh);
    const bool sharded = shard_count(plan, mesh) > 1;
    OwnSizes held;
    for (const Parameter& parameter : layout.parameters)
        held.push_back(parameter.shard.elements());
    std::vector<OwnSizes> all(static_cast<std::size_t>(mesh.dp_cp().size()), held);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        OwnSizes& sizes = all[rank];
        const MeterCommunicator dp_cp(static_cast<int>(rank), mesh.dp_cp().size());
        for (const OwnedRange& range : owned_ranges(layout, dp_cp, sharded)) {
            const bool saved = range.shard.owned && (sharded || rank == 0);
            const auto sum = static_cast<std::int64_t>(range.parameter->sum);
            sizes.insert(sizes.end(), {range.shard.elements(), sum, saved ? 1 : 0});
            // Muon's work depends on the shape of the whole matrix.
            if (range.parameter->update == Update::muon)
                sizes.push_back(range.parameter->shard.global[0]);
        }
        for (const OwnedRange& range : frozen_ranges(layout, dp_cp, sharded))
            sizes.insert(sizes.end(), {range.shard.elements(), range.shard.owned ? 1 : 0});
    }
    return all;
}

}  // namespace gptrain
