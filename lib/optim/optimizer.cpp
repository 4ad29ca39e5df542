#include "optim/optimizer.h"

namespace gptrain {

Optimizer::Optimizer(Backend& backend, Memory& memory, const Mesh& mesh, Parameters& parameters,
                     const OptimizerPlan& plan)
    : backend_(backend),
      memory_(memory),
      mesh_(mesh),
      parameters_(parameters),
      constants_{.beta1 = plan.betas[0],
                 .beta2 = plan.betas[1],
                 .eps = plan.eps,
                 .weight_decay = plan.weight_decay},
      shard_(plan.shard) {
    make_pieces(memory);
}

void Optimizer::make_pieces(Memory& memory) {
    const bool own_main_params = parameters_.weights().dtype() != DType::f32;
    ranges_ = owned_ranges(parameters_.layout(), mesh_.dp_cp(), sharded());
    pieces_.reserve(ranges_.size());
    for (const OwnedRange& range : ranges_) {
        const std::int64_t length = range.shard.elements();
        const auto state = [&](MemoryUse use) {
            return memory[use].allocate(DType::f32, {length});
        };
        const Tensor weight = parameters_.weights().slice(0, range.begin, length);
        AdamWPiece tensors;
        tensors.main_param = own_main_params ? state(MemoryUse::main_params) : weight;
        tensors.main_grad = parameters_.main_grads().slice(0, range.begin, length);
        tensors.exp_avg = state(MemoryUse::optimizer);
        tensors.exp_avg_sq = state(MemoryUse::optimizer);
        if (own_main_params) tensors.weight = weight;
        tensors.decay = range.parameter->decays();
        if (range.shard.owned) {
            grads_.push_back(tensors.main_grad);
            counted_.push_back(pieces_.size());
        }
        pieces_.push_back(tensors);
    }
}

void Optimizer::initialise(std::uint64_t seed) {
    // Padding between groups is never initialised or updated elsewhere.
    backend_.run(Fill{.x = parameters_.weights(), .value = 0});
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        const AdamWPiece& piece = pieces_[i];
        const Initialisation& init = ranges_[i].parameter->init;
        if (init.std > 0) {
            backend_.run(InitNormal{.x = piece.main_param,
                                    .shard = ranges_[i].shard,
                                    .seed = seed,
                                    .std = static_cast<float>(init.std)});
        } else {
            backend_.run(Fill{.x = piece.main_param, .value = init.constant});
        }
        backend_.run(Fill{.x = piece.exp_avg, .value = 0});
        backend_.run(Fill{.x = piece.exp_avg_sq, .value = 0});
    }
    publish_weights();
}

void Optimizer::clear_gradients() {
    backend_.run(Fill{.x = parameters_.main_grads(), .value = 0});
}

void Optimizer::sum_gradient_squares(const StepRef& step) {
    backend_.run(SquareSum{.addends = grads_, .total = step.grad_square_sum()});
    if (sharded()) mesh_.dp_cp().all_reduce(step.grad_square_sum(), Reduce::sum).wait();
    mesh_.model().all_reduce(step.grad_square_sum(), Reduce::sum).wait();
}

void Optimizer::step(const StepRef& step, const StepPolicy& decision) {
    sum_gradient_squares(step);
    mesh_.dp_cp().all_reduce(step.loss_sum(), Reduce::sum).wait();
    mesh_.pp().all_reduce(step.loss_sum(), Reduce::sum).wait();
    backend_.run(DecideStep{.step = step, .policy = decision});
    backend_.run(FindNotFinite{.values = grads_, .step = step});
    backend_.run(AdamW{.pieces = pieces_, .constants = constants_, .step = step});
    distribute_weights();
}

Optimizer::GradientName Optimizer::gradient(std::int64_t index) const {
    const OwnedRange& range = ranges_[counted_[static_cast<std::size_t>(index)]];
    return {range.shard.name, range.begin};
}

void Optimizer::distribute_weights() {
    Communicator& sharers = mesh_.dp_cp();
    const Tensor& weights = parameters_.weights();
    const auto& buckets = parameters_.layout().buckets;
    const auto part_of = [&](const FlatRange& range) {
        return weights.slice(0, range.begin, range.end - range.begin);
    };
    // Those of an abandoned update, after a rollback.
    parameters_.wait_for_all();
    // In reverse, because the next forward starts with the last ones.
    for (auto bucket = buckets.rbegin(); sharded() && bucket != buckets.rend(); ++bucket) {
        const FlatRange own = part_of_bucket(*bucket, sharers.rank(), sharers.size());
        parameters_.expect(*bucket, [&sharers, all = part_of(*bucket), part = part_of(own)] {
            return sharers.all_gather(all, part, 0);
        });
    }
    if (!parameters_.uses_fp8()) return;
    parameters_.wait_for_all();
    parameters_.to_fp8(backend_, memory_[MemoryUse::workspace]);
}

void Optimizer::publish_weights() {
    for (const AdamWPiece& piece : pieces_) {
        if (!piece.weight.empty()) backend_.run(Cast{.to = piece.weight, .from = piece.main_param});
    }
    distribute_weights();
}

void Optimizer::visit(const StateVisitor& visitor) const {
    // In reverse, because the flat order is the model's order reversed.
    for (std::size_t i = pieces_.size(); i-- > 0;) {
        Shard shard = ranges_[i].shard;
        // Without sharding every sharer holds the same values; the first owns them.
        if (!sharded() && mesh_.dp_cp().rank() != 0) shard.owned = false;
        visitor({"weight", shard, pieces_[i].main_param});
        visitor({"exp_avg", shard, pieces_[i].exp_avg});
        visitor({"exp_avg_sq", shard, pieces_[i].exp_avg_sq});
    }
}

}  // namespace gptrain
