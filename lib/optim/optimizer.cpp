#include "optim/optimizer.h"

#include <algorithm>

#include "model/grad_buckets.h"

namespace gptrain {
namespace {

/// The overlap of a parameter with a range of the flat buffers, as a shard of the parameter.
Shard overlap(const Parameter& parameter, const Bucket& range) {
    Shard shard = parameter.shard;
    const std::int64_t begin = std::max(parameter.begin, range.begin);
    const std::int64_t end = std::max(begin, std::min(parameter.end(), range.end));
    shard.flat_begin = begin - parameter.begin;
    shard.flat_end = end - parameter.begin;
    return shard;
}

}  // namespace

Optimizer::Optimizer(Backend& backend, Memory& memory, const Mesh& mesh,
                     const Parameters& parameters, const OptimizerSpec& spec, bool shard)
    : backend_(backend),
      memory_(memory),
      mesh_(mesh),
      parameters_(parameters),
      constants_{.beta1 = spec.betas[0],
                 .beta2 = spec.betas[1],
                 .eps = spec.eps,
                 .weight_decay = spec.weight_decay},
      shard_(shard) {
    make_pieces(memory);
}

void Optimizer::make_pieces(Memory& memory) {
    const ParameterLayout& layout = parameters_.layout();
    const Communicator& sharers = mesh_.dp_cp();
    const bool own_main_params = parameters_.weights().dtype() != DType::f32;
    for (const Bucket& bucket : layout.buckets) {
        const Bucket own = sharded() ? owned_part(bucket, sharers.rank(), sharers.size()) : bucket;
        for (const Parameter& parameter : layout.parameters) {
            const Shard shard = overlap(parameter, own);
            if (shard.elements() == 0) continue;
            const std::int64_t begin = parameter.begin + shard.flat_begin;
            const Shape length = {shard.elements()};
            const auto state = [&](MemoryUse use) {
                return memory[use].allocate(DType::f32, length);
            };
            const Tensor weight = parameters_.weights().slice(0, begin, shard.elements());
            AdamWPiece tensors;
            tensors.main_param = own_main_params ? state(MemoryUse::main_params) : weight;
            tensors.main_grad = parameters_.main_grads().slice(0, begin, shard.elements());
            tensors.exp_avg = state(MemoryUse::optimizer);
            tensors.exp_avg_sq = state(MemoryUse::optimizer);
            if (own_main_params) tensors.weight = weight;
            tensors.decay = parameter.decays();
            pieces_.push_back({&parameter, shard, begin, tensors});
            updates_.push_back(tensors);
            grads_.push_back(tensors.main_grad);
        }
    }
}

void Optimizer::initialise(std::uint64_t seed) {
    // The gaps between groups are never drawn or updated.
    backend_.fill(parameters_.weights(), 0);
    for (const OwnedPiece& piece : pieces_) {
        const Initialisation& start = piece.parameter->start;
        if (start.std > 0) {
            backend_.init_normal(piece.tensors.main_param, piece.shard, seed,
                                 static_cast<float>(start.std));
        } else {
            backend_.fill(piece.tensors.main_param, start.constant);
        }
        backend_.fill(piece.tensors.exp_avg, 0);
        backend_.fill(piece.tensors.exp_avg_sq, 0);
    }
    publish_weights();
}

void Optimizer::clear_gradients() {
    backend_.fill(parameters_.main_grads(), 0);
}

void Optimizer::sum_gradient_squares(const StepRef& step) {
    backend_.square_sum(grads_, step.grad_square_sum());
    if (sharded()) mesh_.dp_cp().all_reduce(step.grad_square_sum(), Reduce::sum).wait();
    mesh_.model().all_reduce(step.grad_square_sum(), Reduce::sum).wait();
}

void Optimizer::step(const StepRef& step, const StepDecision& decision) {
    sum_gradient_squares(step);
    mesh_.dp_cp().all_reduce(step.loss_sum(), Reduce::sum).wait();
    backend_.decide_step(step, decision);
    backend_.adamw(updates_, constants_, step);
    distribute_weights();
}

void Optimizer::distribute_weights() {
    Communicator& sharers = mesh_.dp_cp();
    const Tensor& weights = parameters_.weights();
    for (const Bucket& bucket : parameters_.layout().buckets) {
        if (!sharded()) break;
        const Bucket own = owned_part(bucket, sharers.rank(), sharers.size());
        sharers
            .all_gather(weights.slice(0, bucket.begin, bucket.end - bucket.begin),
                        weights.slice(0, own.begin, own.end - own.begin), 0)
            .wait();
    }
    parameters_.to_float8(backend_, memory_[MemoryUse::workspace]);
}

void Optimizer::publish_weights() {
    for (const OwnedPiece& piece : pieces_) {
        if (!piece.tensors.weight.empty()) {
            backend_.cast(piece.tensors.weight, piece.tensors.main_param);
        }
    }
    distribute_weights();
}

void Optimizer::visit(const StateVisitor& visitor) const {
    // Without sharding every sharer holds the same; the first one owns it.
    if (!sharded() && mesh_.dp_cp().rank() != 0) return;
    // The flat order is the model's order reversed.
    for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
        visitor({"weight", piece->shard, piece->tensors.main_param});
        visitor({"exp_avg", piece->shard, piece->tensors.exp_avg});
        visitor({"exp_avg_sq", piece->shard, piece->tensors.exp_avg_sq});
    }
}

}  // namespace gptrain
