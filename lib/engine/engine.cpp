#include "engine/engine.h"

#include <algorithm>
#include <cmath>

#include "engine/rank_training.h"
#include "model/quantised_loads.h"
#include "model/unit_gathers.h"

namespace gptrain {
namespace {

// fp16: the loss scale of the first step, and the number of clean steps after which it doubles.
constexpr double fp16_loss_scale = 65536;
constexpr std::int64_t loss_scale_interval = 1000;

Tensor reserve_state_copy(Memory& memory, const StepRef& state) {
    return memory[MemoryUse::readback].allocate(DType::u8, state.state.shape());
}

StageSizes stage_sizes(const RunPlan& plan, const MeshPlace& place) {
    const Schedule schedule = largest_schedule(plan, place);
    const Schedule evaluation =
        make_forward_schedule(pipeline_of(plan, most_microbatches(plan, place)), place.pp);
    BatchMasks masks = batch_masks(plan);
    masks.sources = plan.validation_sources > 0;
    return {.slots = schedule.slots,
            .head_slots = schedule.head_slots,
            .deferred_heads = schedule.deferred_heads,
            .buffers = std::max(schedule.buffers, evaluation.buffers),
            .saved = {.seq_length = plan.local_length(),
                      .recompute = plan.recompute,
                      .defer_weights = schedule.defers_weights,
                      .on_host = plan.offload.activations != OffloadedActivations::off},
            .stream = stream_slice(plan, place),
            .masks = masks};
}

ModelContext training_context(Backend& backend, const Mesh& mesh, Memory& memory,
                              const RunPlan& plan) {
    ModelContext context = model_context(backend, mesh, memory, plan);
    context.expert_counts = ExpertBalance::reserve(memory, plan.model);
    return context;
}

}  // namespace

Engine::Engine(Backend& backend, const Mesh& mesh, const RunPlan& plan,
               const std::optional<MemoryPlan>& memory)
    : backend_(backend),
      mesh_(mesh),
      plan_(plan),
      memory_(backend, memory),
      sizes_(stage_sizes(plan, mesh.place())),
      evaluation_(reserve_step_state(memory_, sizes_.slots, evaluation_counts(plan))),
      state_(evaluation_.with(step_counts(plan))),
      checksum_(memory_[MemoryUse::batch].allocate(DType::i64, {1})),
      state_copies_{reserve_state_copy(memory_, state_), reserve_state_copy(memory_, state_)},
      context_(training_context(backend, mesh, memory_, plan)),
      parameters_(memory_, training_layout(plan, mesh), plan.compute, Parameters::Use::training,
                  plan.messages_in_order, training_placement(plan, mesh)),
      chunks_(make_chunks(context_, parameters_, plan)),
      buckets_(backend, memory_, parameters_, mesh,
               {.dtype = plan.grad_reduce,
                .max_in_flight = plan.messages_in_order ? std::size_t{0} : 2}),
      grad_sums_(backend, mesh, parameters_),
      balance_(context_, parameters_),
      optimizer_(backend, memory_, mesh, parameters_, plan.optimizer, plan.offload),
      executor_(make_stage(context_, chunks_, parameters_, plan,
                           reserve_stage(context_, chunks_, sizes_)),
                state_, &buckets_),
      policy_{.clip_grad = plan.optimizer.clip_grad,
              .growth_interval = plan.compute == DType::f16 ? loss_scale_interval : 0} {
    if (parameters_.gathers_weights())
        parameters_.gather_with(unit_gathers(backend, memory_, mesh, parameters_));
    executor_.listen(listeners_);
    if (plan.scores_tasks) {
        const StageMemory& shared = executor_.memory();
        forward_passes_.emplace(context_, chunks_, parameters_, plan, state_,
                                StageMemory{.batches = shared.batches,
                                            .saved = {},
                                            .deferred_heads = {},
                                            .buffers = shared.buffers},
                                true);
    }
    provide_backend_memory(backend, memory_, op_limits(plan));
}

void Engine::initialise() {
    optimizer_.initialise(plan_.seed);
    write_state(initial_step_state(first_loss_scale()));
}

double Engine::first_loss_scale() const {
    return plan_.compute == DType::f16 ? fp16_loss_scale : 1;
}

void Engine::write_state(const StepState& state) {
    backend_.upload(state_.with({}).state, std::as_bytes(std::span(&state, 1)));
}

Engine::StatePoint Engine::mark_state() {
    const Tensor copy = state_copies_[next_copy_];
    next_copy_ = (next_copy_ + 1) % state_copies_.size();
    backend_.copy(copy, state_.state);
    return {.copy = copy, .mark = backend_.mark()};
}

StepNumbers Engine::numbers_at(const StatePoint& point) const {
    backend_.wait(point.mark);
    return step_numbers({point.copy.data(), static_cast<std::size_t>(point.copy.elements())},
                        mesh_.shape());
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

void Engine::begin_step(const StepBatch& batch, double loss_limit, bool repeats) {
    StepState start{};
    start.step = batch.step;
    start.token_weight_sum = batch.weight_sum;
    start.learning_rate = plan_.lr.at(batch.step);
    start.loss_limit = loss_limit;
    start.repeats = repeats ? 1 : 0;
    backend_.run(BeginStep{.step = state_, .given = start});
    optimizer_.clear_gradients();
    balance_.begin();
}

void Engine::run_alone(const StepBatch& batch, std::int64_t expert_slices,
                       const Executor::See& see) {
    begin_step(batch, 0, false);
    executor_.run_alone(make_schedule(pipeline_of(plan_, 1), mesh_.place().pp),
                        batch.microbatches.front(), expert_slices, see);
    see(Executor::Seen::result, state_.with({}).state);
}

void Engine::step(const StepBatch& batch, double loss_limit, const ExpertSlicing& experts) {
    begin_step(batch, loss_limit, experts.repeats);
    executor_.train(schedule_of(std::ssize(batch.microbatches)), batch.microbatches,
                    experts.slices);
    {
        const ProfileRange range(backend_, "gradient sums");
        grad_sums_.sum_all(memory_[MemoryUse::workspace]);
    }
    balance_.measure(state_);
    const ProfileRange range(backend_, "optimizer");
    optimizer_.step(state_, policy_);
    balance_.update(state_);
}

EvaluationSums Engine::evaluate(const StepBatch& batch) {
    return evaluate_batch(context_, plan_, executor_, evaluation_, batch);
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
    const std::vector<QuantisedLoad> loads = quantised_loads(backend_, parameters_);
    std::int64_t largest = 0;
    for (const QuantisedLoad& matrix : loads)
        largest = std::max(largest, matrix.shard.elements());
    const Tensor memory = memory_[MemoryUse::workspace].allocate(DType::f32, {largest});
    for (const QuantisedLoad& matrix : loads) {
        const Tensor values = memory.slice(0, 0, matrix.shard.elements());
        states.push_back({.group = "weight",
                          .shard = matrix.shard,
                          .values = values,
                          .on_filled = [set = matrix.set, values] { set(values); },
                          .on_stored = matrix.set_stored});
    }
    load(states);
}

void Engine::visit_gradients(const StateVisitor& visitor) const {
    if (parameters_.gathers_grads()) {
        for (const OwnedRange& range : owned_ranges(parameters_.layout(), mesh_))
            visitor({.group = "main_grad",
                     .shard = range.shard,
                     .values = parameters_.owned_grads(range.range())});
        return;
    }
    for (const Parameter& parameter : parameters_.layout().parameters) {
        if (parameter.trained())
            visitor({.group = "main_grad",
                     .shard = parameter.shard,
                     .values = parameters_.grads(parameter.range())});
    }
}

void Engine::visit_weights(const StateVisitor& visitor) {
    parameters_.wait_for_all();
    if (parameters_.gathers_weights()) {
        const auto visit_all = [&](const std::vector<OwnedRange>& ranges) {
            for (const OwnedRange& range : ranges)
                visitor({.group = "weight",
                         .shard = range.shard,
                         .values = parameters_.owned_weights(range.range())});
        };
        visit_all(owned_ranges(parameters_.layout(), mesh_));
        return visit_all(frozen_ranges(parameters_.layout(), mesh_));
    }
    for (const Parameter& parameter : parameters_.layout().parameters) {
        if (parameter.storage.in_compute_dtype)
            visitor({.group = "weight",
                     .shard = parameter.shard,
                     .values = parameters_.weights(parameter.range())});
    }
}

std::array<std::int64_t, axes> Engine::weights_checksums() {
    parameters_.wait_for_all();
    std::array<std::int64_t, axes> sums{};
    for (std::size_t axis = 0; axis < sums.size(); ++axis) {
        const std::vector<Tensor> shared = parameters_.shared_over(static_cast<Axis>(axis));
        if (!shared.empty()) sums[axis] = checksum_of(shared);
    }
    return sums;
}

std::int64_t Engine::checksum_of(std::span<const Tensor> parts) {
    std::int64_t sum = 0;
    const auto bytes = std::as_writable_bytes(std::span(&sum, 1));
    backend_.upload(checksum_, bytes);
    for (const Tensor& part : parts)
        backend_.run(Checksum{.x = part, .sum = checksum_});
    backend_.download(bytes, checksum_);
    return sum;
}

double Engine::gradient_norm() {
    backend_.run(BeginStep{.step = state_, .given = {}});
    optimizer_.sum_gradient_squares(state_);
    return std::sqrt(read_state().grad_square_sum);
}

}  // namespace gptrain
