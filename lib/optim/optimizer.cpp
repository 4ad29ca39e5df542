#include "optim/optimizer.h"

#include <algorithm>

#include "base/dynamic8.h"
#include "model/unit_gathers.h"
#include "tensor/shard_runs.h"

namespace gptrain {
namespace {

/// Codes are saved as numbers of four bytes.
constexpr std::int64_t codes_in_number = size_of(DType::f32);

/// Weights without fp32 values are drawn in fp32, this many elements at a time, then rounded.
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
      seed_(plan.seed),
      muon_(backend, memory[MemoryUse::workspace], mesh.tp(), plan, parameters.dtype()),
      held_{.main_params = offload.main_weights && parameters.dtype() != plan.main_weights,
            .moments = offload.optimizer},
      sums_over_dp_cp_(are_shared_otherwise(parameters.layout())) {
    cleared_ = parameters_.cleared_grads();
    allocate(memory, plan);
    if (held_.any())
        windows_.emplace(backend, memory[MemoryUse::workspace], held_, adamw_pieces_, muon_pieces_);
    frozen_ = frozen_ranges(parameters_.layout(), mesh_);
}

void Optimizer::allocate(Memory& memory, const OptimizerPlan& plan) {
    const bool own_main_params = parameters_.dtype() != plan.main_weights;
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
            updated.states = {{"momentum_buffer", state(of_moments), range.shard}};
        } else {
            const bool small = has_small_moments(range.parameter->matrix,
                                                 range.parameter->shard.global.elements());
            updated.adamw.shard = range.shard;
            add_moments(memory[of_moments], small ? plan.state : MomentFormat::fp32, updated);
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

void Optimizer::add_moments(Arena& arena, MomentFormat format, UpdatedRange& updated) {
    AdamWPiece& piece = updated.adamw;
    const Shard& shard = piece.shard;
    if (format != MomentFormat::eight_bit) {
        const DType dtype = format == MomentFormat::bf16 ? DType::bf16 : DType::f32;
        piece.exp_avg = arena.allocate(dtype, {shard.elements()});
        piece.exp_avg_sq = arena.allocate(dtype, {shard.elements()});
        updated.states = {{"exp_avg", piece.exp_avg, shard},
                          {"exp_avg_sq", piece.exp_avg_sq, shard}};
        return;
    }
    const Shard codes = block_shard(shard, moment_block, moment_block / codes_in_number);
    const Shard scales = block_shard(shard, moment_block, 1);
    const auto add = [&](std::string_view codes_group, std::string_view scales_group,
                         Tensor& moment, Tensor& moment_scales) {
        const Tensor numbers = arena.allocate(DType::f32, {codes.elements()});
        moment = numbers.reinterpret(DType::u8, {numbers.bytes()});
        moment_scales = arena.allocate(DType::f32, {scales.elements()});
        updated.states.push_back({codes_group, numbers, codes});
        updated.states.push_back({scales_group, moment_scales, scales});
    };
    add("exp_avg_codes", "exp_avg_scales", piece.exp_avg, piece.exp_avg_scales);
    add("exp_avg_sq_codes", "exp_avg_sq_scales", piece.exp_avg_sq, piece.exp_avg_sq_scales);
}

void Optimizer::add_piece(const UpdatedRange& updated) {
    const Parameter* parameter = updated.range.parameter;
    if (parameter->update == Update::muon) {
        add_matrices(updated);
    } else {
        AdamWPiece piece = updated.adamw;
        piece.main_param = updated.main_param;
        piece.main_grad = updated.main_grad;
        piece.weight = updated.weight;
        piece.decay = parameter->decays();
        adamw_pieces_.push_back(std::move(piece));
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
        draw_weights(updated.main_param, updated.range, seed);
        for (const UpdatedRange::State& state : updated.states)
            backend_.run(Fill{.x = state.values, .value = 0});
    }
    for (const OwnedRange& range : frozen_)
        draw_weights(parameters_.owned_weights(range.range()), range, seed);
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

void Optimizer::draw_weights(const Tensor& weights, const OwnedRange& range, std::uint64_t seed) {
    if (weights.dtype() == DType::f32) {
        draw(weights, range, seed);
        return;
    }
    const ArenaFrame frame(memory_[MemoryUse::workspace]);
    const std::int64_t elements = range.shard.elements();
    const std::int64_t most = std::min(drawn_elements, elements);
    const Tensor drawn = memory_[MemoryUse::workspace].allocate(DType::f32, {most});
    for (std::int64_t begin = 0; begin < elements; begin += most) {
        OwnedRange part = range;
        part.shard.flat_begin += begin;
        part.shard.flat_end = std::min(part.shard.flat_begin + most, range.shard.flat_end);
        const std::int64_t count = part.shard.elements();
        const Tensor values = drawn.slice(0, 0, count);
        draw(values, part, seed);
        backend_.run(Cast{.to = weights.slice(0, begin, count), .from = values});
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
    if (!adamw.empty()) {
        backend_.run(AdamW{.pieces = adamw, .constants = constants_, .step = step, .seed = seed_});
    }
    for (const MuonPiece& piece : muon)
        muon_.update(piece, step);
}

Optimizer::GradientName Optimizer::gradient(std::int64_t index) const {
    const OwnedRange& range = updated_[counted_[static_cast<std::size_t>(index)]].range;
    return {.name = range.shard.name, .begin = range.begin};
}

void Optimizer::distribute_weights() {
    if (parameters_.gathers_weights()) {
        find_amaxes(backend_, mesh_, parameters_);
        return parameters_.forget_gathered();
    }
    const std::vector<WeightMessage> messages = weight_messages(parameters_.layout(), mesh_);
    // In reverse, because the next forward starts with the last ones.
    for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
        parameters_.expect(message->range, [this, sent = *message] {
            return send_weights(backend_, mesh_, parameters_, sent);
        });
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
        // The first of the ranks that hold the same values owns them.
        const bool saves = owner_of(updated->range.parameter->sharing, mesh_).saves;
        const auto show = [&](std::string_view group, Shard shard, const Tensor& values) {
            shard.owned = shard.owned && saves;
            visitor({.group = group, .shard = shard, .values = values});
        };
        show("weight", updated->range.shard, updated->main_param);
        for (const UpdatedRange::State& state : updated->states)
            show(state.group, state.shard, state.values);
    }
    for (const OwnedRange& range : frozen_)
        visitor({.group = "weight",
                 .shard = range.shard,
                 .values = parameters_.owned_weights(range.range())});
}

}  // namespace gptrain
