#include "train/engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checkpoint/snapshot.h"
#include "model/ownership.h"
#include "schedule/stage_plan.h"

namespace gptrain {
namespace {

// fp16: the scale of the first step, and the clean steps after which it doubles.
constexpr double first_loss_scale = 65536;
constexpr std::int64_t loss_scale_interval = 1000;

/// The actions of a step at the final batch size, which needs the most memory.
Schedule largest_schedule(const RunPlan& plan, const MeshPlace& place) {
    const std::int64_t most = plan.microbatches(plan.batch.global_batch_size);
    return make_schedule(pipeline_of(plan, most), place.pp);
}

Tensor reserve_state_copy(Memory& memory) {
    return memory[MemoryUse::readback].allocate(DType::u8, {sizeof(StepState)});
}

std::int64_t shards_of(const RunSpec& spec, const Mesh& mesh) {
    return spec.parallel.shard_optimizer ? mesh.dp_cp().size() : 1;
}

/// Ranks among which buckets are cut: also where they only go around in parts.
std::int64_t bucket_parts(const RunSpec& spec, const RunPlan& plan, const Mesh& mesh) {
    return plan.grad_reduce == DType::f32 ? shards_of(spec, mesh) : mesh.dp_cp().size();
}

ParameterLayout training_layout(const RunSpec& spec, const RunPlan& plan, const Mesh& mesh) {
    return make_layout({.model = plan.model,
                        .parts = chunk_parts(plan, mesh.place().pp),
                        .tensor = plan.mesh.tensor,
                        .tensor_rank = mesh.place().tp,
                        .sequence_parallel = plan.sequence_parallel,
                        .tied_ends = has_tied_ends(plan),
                        .shards = bucket_parts(spec, plan, mesh),
                        .float8 = plan.float8});
}

/// What this rank of cp has of every sequence.
std::vector<SequenceSlice> slices_of(const RunPlan& plan, const MeshPlace& place) {
    return context_slices(plan.seq_length, plan.mesh.context, place.cp, plan.context_method);
}

/// Where the rows of the residual stream stand in their sequences.
SequenceRows stream_rows(const RunPlan& plan, const MeshPlace& place) {
    const std::int64_t first = plan.sequence_parallel ? place.tp * plan.stream_length() : 0;
    return rows_of(slices_of_rows(slices_of(plan, place), first, plan.stream_length()));
}

StreamSlice stream_slice(const RunPlan& plan, const MeshPlace& place) {
    if (!plan.sequence_parallel) return {};
    return {.index = place.tp, .count = plan.mesh.tensor};
}

std::vector<GptChunk> make_chunks(const ModelContext& context, Parameters& parameters,
                                  const std::vector<ChunkPart>& parts) {
    std::vector<GptChunk> chunks;
    for (std::size_t i = 0; i < parts.size(); ++i)
        chunks.emplace_back(context, parameters, parts[i], parameters.layout().chunks[i]);
    return chunks;
}

StageSizes stage_sizes(const RunSpec& spec, const RunPlan& plan, const MeshPlace& place) {
    const Schedule schedule = largest_schedule(plan, place);
    const Schedule evaluation = make_forward_schedule(
        pipeline_of(plan, plan.microbatches(plan.batch.global_batch_size)), place.pp);
    return {.slots = schedule.slots,
            .heads = schedule.heads,
            .buffers = std::max(schedule.buffers, evaluation.buffers),
            .saved = {.seq_length = plan.local_length(),
                      .recompute = spec.recompute,
                      .defer_weights = schedule.defers_weights},
            .stream = stream_slice(plan, place),
            .first_visible = spec.data.reset_at_eod};
}

}  // namespace

StepRef reserve_step_state(Memory& memory, std::int64_t slots) {
    Arena& arena = memory[MemoryUse::batch];
    return {.state = arena.allocate(DType::u8, {sizeof(StepState)}),
            .first_sequence = arena.allocate(DType::i64, {slots})};
}

ChunkPart whole_model(const RunPlan& plan) {
    return {.first_layer = 0, .num_layers = plan.model.layers, .embedding = true, .head = true};
}

OpLimits op_limits(const RunPlan& plan) {
    const ModelShape& model = plan.local;
    const std::int64_t inner = model.activation == Activation::swiglu ? 2 * model.ffn : model.ffn;
    return {.compute = plan.compute,
            .sequences = plan.micro_batch_size,
            .seq_length =
                plan.context_method == ContextMethod::ring ? plan.local_length() : plan.seq_length,
            .hidden = model.hidden,
            .heads = model.heads,
            .groups = model.groups,
            .head_dim = model.head_dim,
            .widest =
                std::max({inner, model.hidden, (model.heads + 2 * model.groups) * model.head_dim}),
            .vocab = model.vocab,
            .head_chunk = plan.head_chunk};
}

void give_memory(Backend& backend, Memory& memory, const OpLimits& limits) {
    backend.use_scratch(
        memory[MemoryUse::scratch].allocate(DType::u8, {backend.scratch_bytes(limits)}));
    backend.use_staging(memory[MemoryUse::staging].allocate(DType::u8, {backend.staging_bytes()}));
}

Engine::Engine(Backend& backend, const Mesh& mesh, const RunSpec& spec, const RunPlan& plan,
               const std::optional<MemoryPlan>& memory)
    : backend_(backend),
      mesh_(mesh),
      plan_(plan),
      memory_(backend, memory),
      state_(reserve_step_state(memory_, largest_schedule(plan, mesh.place()).slots)),
      checksum_(memory_[MemoryUse::batch].allocate(DType::i64, {1})),
      state_copies_{reserve_state_copy(memory_), reserve_state_copy(memory_)},
      context_{.backend = backend,
               .mesh = mesh,
               .memory = memory_,
               .shape = plan.local,
               .compute = plan.compute,
               .seed = spec.seed,
               .head_chunk = plan.head_chunk,
               .sequences = plan.micro_batch_size,
               .sequence_parallel = plan.sequence_parallel,
               .stream_rows = stream_rows(plan, mesh.place()),
               .context_method = plan.context_method},
      parameters_(memory_, training_layout(spec, plan, mesh), plan.compute,
                  Parameters::Use::training),
      chunks_(make_chunks(context_, parameters_, chunk_parts(plan, mesh.place().pp))),
      buckets_(backend, memory_, parameters_, mesh.dp_cp(),
               {.shard = spec.parallel.shard_optimizer, .dtype = plan.grad_reduce}),
      grad_sums_(backend, mesh, parameters_, shards_of(spec, mesh) > 1),
      optimizer_(backend, memory_, mesh, parameters_, spec.optimizer,
                 spec.parallel.shard_optimizer),
      executor_({.context = context_,
                 .chunks = chunks_,
                 .parameters = parameters_,
                 .memory = reserve_stage(context_, chunks_, stage_sizes(spec, plan, mesh.place())),
                 .seq_length = plan.seq_length,
                 .slices = slices_of(plan, mesh.place()),
                 .stream = stream_slice(plan, mesh.place())},
                buckets_, state_),
      decision_{.clip_grad = spec.optimizer.clip_grad,
                .growth_interval = plan.compute == DType::f16 ? loss_scale_interval : 0},
      seed_(spec.seed) {
    give_memory(backend, memory_, op_limits(plan));
}

void Engine::initialise() {
    optimizer_.initialise(seed_);
    write_state(initial_step_state(plan_.compute == DType::f16 ? first_loss_scale : 1));
}

void Engine::write_state(const StepState& state) {
    backend_.upload(state_.state, std::as_bytes(std::span(&state, 1)));
}

StepState Engine::read_state() const {
    StepState state{};
    backend_.download(std::as_writable_bytes(std::span(&state, 1)), state_.state);
    return state;
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

StepState Engine::given(const StepBatch& batch) const {
    StepState state{};
    state.step = batch.step;
    state.token_weight_sum = batch.weight_sum;
    state.learning_rate = plan_.lr.at(batch.step);
    return state;
}

void Engine::sum_weights() {
    mesh_.dp().all_reduce(state_.token_weight_sum(), Reduce::sum).wait();
}

const Schedule& Engine::schedule_of(std::int64_t microbatches) {
    if (scheduled_ != microbatches) {
        schedule_ = make_schedule(pipeline_of(plan_, microbatches), mesh_.place().pp);
        scheduled_ = microbatches;
    }
    return schedule_;
}

void Engine::step(const StepBatch& batch, double loss_limit) {
    StepState start = given(batch);
    start.loss_limit = loss_limit;
    backend_.begin_step(state_, start);
    sum_weights();
    optimizer_.clear_gradients();
    executor_.train(schedule_of(std::ssize(batch.microbatches)), batch.microbatches);
    grad_sums_.run(memory_[MemoryUse::workspace]);
    optimizer_.step(state_, decision_);
}

LossSum Engine::evaluate(const StepBatch& batch) {
    backend_.begin_step(state_, given(batch));
    sum_weights();
    const PipelineShape pipeline = pipeline_of(plan_, std::ssize(batch.microbatches));
    executor_.evaluate(make_forward_schedule(pipeline, mesh_.place().pp), batch.microbatches);
    mesh_.dp_cp().all_reduce(state_.loss_sum(), Reduce::sum).wait();
    mesh_.pp().all_reduce(state_.loss_sum(), Reduce::sum).wait();
    const StepState state = read_state();
    return {state.loss_sum, state.token_weight_sum};
}

void Engine::visit_flat(std::string_view group, const Tensor& flat,
                        const StateVisitor& visitor) const {
    for (const Parameter& parameter : parameters_.layout().parameters) {
        visitor(
            {group, parameter.shard, flat.slice(0, parameter.begin, parameter.shard.elements())});
    }
}

void Engine::visit_gradients(const StateVisitor& visitor) const {
    visit_flat("main_grad", parameters_.main_grads(), visitor);
}

void Engine::visit_weights(const StateVisitor& visitor) {
    parameters_.await_all();
    visit_flat("weight", parameters_.weights(), visitor);
}

std::int64_t Engine::weights_checksum() {
    parameters_.await_all();
    std::int64_t sum = 0;
    const auto bytes = std::as_writable_bytes(std::span(&sum, 1));
    backend_.upload(checksum_, bytes);
    backend_.checksum(parameters_.weights(), checksum_);
    backend_.download(bytes, checksum_);
    return sum;
}

double Engine::gradient_norm() {
    backend_.begin_step(state_, {});
    optimizer_.sum_gradient_squares(state_);
    return std::sqrt(read_state().grad_square_sum);
}

StepCost measure_run(const RunSpec& spec, const RunPlan& plan, const MeshPlace& place,
                     const BackendNeeds& needs, const CommunicatorFactory& make) {
    MeterBackend meter(needs);
    StepCost cost;
    CommTotals totals;
    const Mesh mesh(plan.mesh, place, mesh_links(plan), observed(make, totals));
    Engine engine(meter, mesh, spec, plan);
    engine.initialise();
    meter.clear_work();
    totals.clear();

    StepBatch batch;
    batch.step = 1;
    cost.microbatches = plan.microbatches(plan.batch.global_batch_size);
    batch.microbatches.resize(static_cast<std::size_t>(cost.microbatches));
    engine.step(batch);
    cost.forward_and_backward = meter.work();
    cost.comm = totals.by_axis();
    batch.microbatches.resize(1);
    engine.evaluate(batch);
    if (spec.checkpoint.async) {
        allocate_snapshot(engine.memory()[MemoryUse::snapshot],
                          [&](const StateVisitor& visitor) { engine.visit(visitor); });
    }
    cost.linear_ops = meter.linear_ops();
    cost.memory = engine.memory().peaks();
    if (needs.messages_on_host) {
        // A buffer that was too small once makes place for a larger one, until all are large
        // enough.
        std::int64_t& held = cost.memory[MemoryUse::messages];
        while (held != mesh.held_bytes()) {
            held = mesh.held_bytes();
            batch.microbatches.resize(static_cast<std::size_t>(cost.microbatches));
            engine.step(batch);
        }
    }
    return cost;
}

std::vector<std::int64_t> own_sizes(const RunSpec& spec, const RunPlan& plan,
                                    const MeshPlace& place) {
    const Mesh mesh(plan.mesh, place, {}, meter_communicators());
    const ParameterLayout layout = training_layout(spec, plan, mesh);
    const bool sharded = shards_of(spec, mesh) > 1;
    std::vector<std::int64_t> sizes;
    for (const Parameter& parameter : layout.parameters)
        sizes.push_back(parameter.shard.elements());
    for (const OwnedRange& range : owned_ranges(layout, mesh.dp_cp(), sharded)) {
        const bool saved = range.shard.owned && (sharded || mesh.dp_cp().rank() == 0);
        const auto sum = static_cast<std::int64_t>(range.parameter->sum);
        sizes.insert(sizes.end(), {range.shard.elements(), sum, saved ? 1 : 0});
    }
    return sizes;
}

}  // namespace gptrain
