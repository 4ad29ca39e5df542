#include "optim/optimizer.h"

#include <algorithm>

namespace gptrain {
namespace {

/// Frozen weights are drawn in fp32, this many elements at a time, then rounded.
constexpr std::int64_t drawn_elements = std::int64_t{1} << 20;

/// True unless exactly the ranks of dp x cp have and update the same parameters.
bool are_shared_otherwise(const ParameterLayout& layout) {
    return std::any_of(layout.parameters.begin(), layout.parameters.end(),
                       [](const Parameter& each) { return each.sharing != Sharing(); });
}

}  // namespace

Optimizer::Optimizer(Backend& backend, Memory& memory, const Mesh& mesh, Parameters& parameters,
                     const OptimizerPlan& plan, const OffloadSpec& offload)
    : backend_(backend),
      memory_(memory),
      mesh_(mesh),
      parameters_(parameters),
      constants_{.beta1 = plan.betas[0],
                 .beta2 = plan.betas[1],
                 .eps = plan.eps,
                 .weight_decay = plan.weight_decay},
      muon_(backend, memory[MemoryUse::workspace], mesh.tp(), plan, parameters.dtype()),
      held_{.main_params = offload.main_weights && parameters.dtype() != DType::f32,
            .moments = offload.optimizer},
      sums_over_dp_cp_(are_shared_otherwise(parameters.layout())) {
    cleared_ = parameters_.cleared_grads();
    allocate(memory);
    if (held_.any())
        windows_.emplace(backend, memory[MemoryUse::workspace], held_, adamw_pieces_, muon_pieces_);
    frozen_ = frozen_ranges(parameters_.layout(), mesh_);
}

void Optimizer::allocate(Memory& memory) {
    const bool own_main_params = parameters_.dtype() != DType::f32;
    const MemoryUse of_main_params =
        held_.main_params ? MemoryUse::host_main_params : MemoryUse::main_params;
    const MemoryUse of_moments = held_.moments ? MemoryUse::host_optimizer : MemoryUse::optimizer;
    for (OwnedRange& range : owned_ranges(parameters_.layout(), mesh_)) {
        const std::int64_t length = range.shard.elements();
        const auto state = [&](MemoryUse use) {
            return memory[use].allocate(DType::f32, {length});
        };
        const Tensor weight = parameters_.owned_weights(range.range());
        UpdatedRange updated;
        updated.main_param = own_main_params ? state(of_main_params) : weight;
        updated.main_grad = parameters_.owned_grads(range.range());
        if (own_main_params) updated.weight = weight;
        if (range.parameter->update == Update::muon) {
            updated.states = {{"momentum_buffer", state(of_moments)}};
        } else {
            updated.states = {{"exp_avg", state(of_moments)}, {"exp_avg_sq", state(of_moments)}};
        }
        const bool is_first = owner_of(range.parameter->sharing, mesh_).saves;
        if (range.shard.owned && (is_first || !sums_over_dp_cp_)) {
            grads_.push_back(updated.main_grad);
            counted_.push_back(updated_.size());
        }
        updated.range = std::move(range);
        add_piece(updated);
        updated_.push_back(std::move(updated));
    }
}

void Optimizer::add_piece(const UpdatedRange& updated) {
    const Parameter* parameter = updated.range.parameter;
    if (parameter->update == Update::muon) {
        add_matrices(updated);
    } else {
        adamw_pieces_.push_back({.main_param = updated.main_param,
                                 .main_grad = updated.main_grad,
                                 .exp_avg = updated.states[0].values,
                                 .exp_avg_sq = updated.states[1].values,
                                 .weight = updated.weight,
                                 .decay = parameter->decays()});
    }
}

void Optimizer::add_matrices(const UpdatedRange& updated) {
    const Shard& shard = updated.range.parameter->shard;
    const bool of_experts = shard.global.rank() == 3;
    const auto last_two = [](const Shape& shape) {
        const int rank = shape.rank();
        return Shape({shape[rank - 2], shape[rank - 1]});
    };
    const MuonPiece whole = {
        .global = last_two(shard.global),
        .box = {.offset = last_two(shard.box.offset), .extent = last_two(shard.box.extent)},
        .main_param = updated.main_param,
        .main_grad = updated.main_grad,
        .momentum = updated.states[0].values,
        .weight = updated.weight};
    const std::int64_t length = whole.box.extent.elements();
    for (std::int64_t i = 0; i < (of_experts ? shard.box.extent[0] : 1); ++i) {
        const auto part = [&](const Tensor& x) {
            return x.empty() ? x : x.slice(0, i * length, length);
        };
        muon_pieces_.push_back({.global = whole.global,
                                .box = whole.box,
                                .main_param = part(whole.main_param),
                                .main_grad = part(whole.main_grad),
                                .momentum = part(whole.momentum),
                                .weight = part(whole.weight)});
    }
}

void Optimizer::initialise(std::uint64_t seed) {
    parameters_.clear(backend_);
    for (const UpdatedRange& updated : updated_) {
        draw(updated.main_param, updated.range, seed);
        for (const UpdatedRange::State& state : updated.states)
            backend_.run(Fill{.x = state.values, .value = 0});
    }
    for (const OwnedRange& range : frozen_)
        initialise_frozen(range, seed);
    publish_weights();
}

void Optimizer::draw(const Tensor& values, const OwnedRange& range, std::uint64_t seed) {
    const Initialisation& init = range.parameter->init;
    if (init.std > 0) {
        backend_.run(InitNormal{
            .x = values, .shard = range.shard, .seed = seed, .std = static_cast<float>(init.std)});
    } else {
        backend_.run(Fill{.x = values, .value = init.constant});
    }
}

void Optimizer::initialise_frozen(const OwnedRange& range, std::uint64_t seed) {
    const ArenaFrame frame(memory_[MemoryUse::workspace]);
    const std::int64_t elements = range.shard.elements();
    const Tensor weights = parameters_.owned_weights(range.range());
    const bool rounded = weights.dtype() != DType::f32;
    const std::int64_t most = std::min(drawn_elements, elements);
    const Tensor drawn =
        rounded ? memory_[MemoryUse::workspace].allocate(DType::f32, {most}) : Tensor();
    for (std::int64_t begin = 0; begin < elements; begin += most) {
        OwnedRange part = range;
        part.shard.flat_begin += begin;
        part.shard.flat_end = std::min(part.shard.flat_begin + most, range.shard.flat_end);
        const std::int64_t count = part.shard.elements();
        const Tensor to = weights.slice(0, begin, count);
        const Tensor values = rounded ? drawn.slice(0, 0, count) : to;
        draw(values, part, seed);
        if (rounded) backend_.run(Cast{.to = to, .from = values});
    }
}

void Optimizer::clear_gradients() {
    if (!cleared_.empty()) backend_.run(Clear{.values = cleared_});
}

void Optimizer::sum_gradient_squares(const StepRef& step) {
    backend_.run(SquareSum{.addends = grads_, .total = step.grad_square_sum()});
    if (sums_over_dp_cp_) mesh_.dp_cp().all_reduce(step.grad_square_sum(), Reduce::sum).wait();
    mesh_.model().all_reduce(step.grad_square_sum(), Reduce::sum).wait();
}

void Optimizer::step(const StepRef& step, const StepPolicy& decision) {
    sum_gradient_squares(step);
    share_sums(mesh_, step);
    backend_.run(DecideStep{.step = step, .policy = decision});
    backend_.run(FindNotFinite{.values = grads_, .step = step});
    if (windows_) {
        windows_->update(
            [&](const StateWindows::Part& part) { update(step, part.adamw, part.muon); });
    } else {
        update(step, adamw_pieces_, muon_pieces_);
    }
    distribute_weights();
}

void Optimizer::update(const StepRef& step, std::span<const AdamWPiece> adamw,
                       std::span<const MuonPiece> muon) {
    if (!adamw.empty()) backend_.run(AdamW{.pieces = adamw, .constants = constants_, .step = step});
    for (const MuonPiece& piece : muon)
        muon_.update(piece, step);
}

Optimizer::GradientName Optimizer::gradient(std::int64_t index) const {
    const OwnedRange& range = updated_[counted_[static_cast<std::size_t>(index)]].range;
    return {.name = range.shard.name, .begin = range.begin};
}

void Optimizer::distribute_weights() {
    if (parameters_.gathers_weights()) return parameters_.forget_gathered();
    const std::vector<WeightMessage> messages = weight_messages(parameters_.layout(), mesh_);
    // In reverse, because the next forward starts with the last ones.
    for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
        const Tensor all = parameters_.weights(message->range);
        Communicator& owners = mesh_[message->owners];
        if (message->owner) {
            parameters_.expect(message->range, [&owners, all, owner = *message->owner] {
                return owners.broadcast(all, owner);
            });
            continue;
        }
        const Tensor own =
            parameters_.owned_weights(part_of_bucket(message->range, owners.rank(), owners.size()));
        parameters_.expect(message->range,
                           [&owners, all, own] { return owners.all_gather(all, own, 0); });
    }
    if (!parameters_.uses_fp8()) return;
    parameters_.wait_for_all();
    parameters_.to_fp8(backend_, memory_[MemoryUse::workspace]);
}

void Optimizer::publish_weights() {
    for (const UpdatedRange& updated : updated_) {
        if (updated.weight.empty()) continue;
        backend_.run(Cast{.to = updated.weight, .from = updated.main_param});
    }
    parameters_.frozen_to_fp8(backend_, memory_[MemoryUse::workspace]);
    distribute_weights();
}

void Optimizer::visit(const StateVisitor& visitor) const {
    // Main parameters in fp32 and frozen weights are parts of weights that may still be in flight.
    parameters_.wait_for_all();
    // In reverse, because the flat order is the model's order reversed.
    for (auto updated = updated_.rbegin(); updated != updated_.rend(); ++updated) {
        Shard shard = updated->range.shard;
        // The first of the ranks that hold the same values owns them.
        if (!owner_of(updated->range.parameter->sharing, mesh_).saves) shard.owned = false;
        visitor({.group = "weight", .shard = shard, .values = updated->main_param});
        for (const UpdatedRange::State& state : updated->states)
            visitor({.group = state.group, .shard = shard, .values = state.values});
    }
    for (const OwnedRange& range : frozen_)
        visitor({.group = "weight",
                 .shard = range.shard,
                 .values = parameters_.owned_weights(range.range())});
}

}  // namespace gptrain
