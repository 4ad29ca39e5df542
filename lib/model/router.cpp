#include "model/router.h"

namespace gptrain {

Router::Router(const ModelContext& context, const Parameters& parameters, const BlockId& block)
    : context_(context),
      layer_(block.layer),
      rule_(experts().rule()),
      weight_(parameters.group(block.name + ".router.weight")),
      bias_(parameters.group(block.name + ".router.bias")),
      balance_(parameters.group(block.name + ".router.balance")) {
    GPTRAIN_CHECK(weight_.present(), "no router in ", block.name);
}

SavedRouting Router::reserve(Arena& arena, std::int64_t rows) const {
    const std::int64_t count = experts().count;
    const Shape of_row = {rows, experts().per_token};
    SavedRouting saved = {.logits = arena.allocate(DType::f32, {rows, count}),
                          .chosen = arena.allocate(DType::i32, of_row),
                          .weights = arena.allocate(DType::f32, of_row),
                          .sequence_sums = {},
                          .batch_sums = {}};
    const BalanceSpec& balance = experts().balance;
    const auto sums = [&](std::int64_t groups) {
        return arena.allocate(DType::f64, {groups, 2 * count + 1});
    };
    if (balance.sequence_aux_weight > 0) saved.sequence_sums = sums(context_.sequences);
    if (balance.aux_weight > 0) saved.batch_sums = sums(1);
    return saved;
}

int Router::ranks_of_sequence() const {
    return context_.mesh.cp().size() * (context_.sequence_parallel ? context_.mesh.tp().size() : 1);
}

Tensor Router::measure(Measure which, const Pass& pass) const {
    return pass.step.measure(which).slice(0, layer_, 1).view({2});
}

void Router::sum(const Tensor& sums, const SavedRouting& saved, const Pass& pass) const {
    if (sums.empty()) return;
    context_.backend.run(BalanceSums{.logits = saved.logits,
                                     .rule = rule_,
                                     .chosen = saved.chosen,
                                     .token_weights = pass.batch.stream_weights,
                                     .sums = sums});
    context_.mesh.cp().all_reduce(sums, Reduce::sum).wait();
    if (context_.sequence_parallel) context_.mesh.tp().all_reduce(sums, Reduce::sum).wait();
}

void Router::add_losses(const SavedRouting& saved, const Tensor& loss, const Tensor& dlogits,
                        const Pass& pass) const {
    const BalanceSpec& balance = experts().balance;
    const auto add = [&](const Tensor& sums, double weight) {
        if (sums.empty()) return;
        context_.backend.run(BalanceLoss{.logits = saved.logits,
                                         .rule = rule_,
                                         .per_token = experts().per_token,
                                         .token_weights = pass.batch.stream_weights,
                                         .sums = sums,
                                         .factor = weight,
                                         .part = weight / ranks_of_sequence(),
                                         .loss = loss,
                                         .dlogits = dlogits,
                                         .step = pass.step});
    };
    add(saved.sequence_sums, balance.sequence_aux_weight);
    add(saved.batch_sums, balance.aux_weight);
    if (balance.z_weight == 0) return;
    context_.backend.run(RouterZLoss{.logits = saved.logits,
                                     .token_weights = pass.batch.stream_weights,
                                     .factor = balance.z_weight,
                                     .loss = loss,
                                     .dlogits = dlogits,
                                     .step = pass.step});
}

void Router::forward(const Tensor& n, const SavedRouting& saved, const Pass& pass) const {
    Backend& backend = context_.backend;
    backend.run(
        LinearForward{.x = n, .weight = weight_.weight, .bias = bias_.weight, .y = saved.logits});
    backend.run(RouterForward{.logits = saved.logits,
                              .balance = balance_.weight,
                              .rule = rule_,
                              .chosen = saved.chosen,
                              .weights = saved.weights});
    if (!pass.training) return;
    sum(saved.sequence_sums, saved, pass);
    sum(saved.batch_sums, saved, pass);
    if (pass.again) return;
    const Tensor losses = measure(Measure::router_loss, pass);
    backend.run(
        MeasureRouter{.logits = saved.logits,
                      .rule = rule_,
                      .chosen = saved.chosen,
                      .token_weights = pass.batch.stream_weights,
                      .counts = context_.expert_counts.slice(0, layer_, 1).view({experts().count}),
                      .entropy = measure(Measure::router_entropy, pass),
                      .weight = losses.slice(0, 1, 1)});
    add_losses(saved, losses.slice(0, 0, 1), {}, pass);
}

void Router::backward(const Tensor& n, const SavedRouting& saved, const Tensor& dweights,
                      const Tensor& dn, const Pass& pass) const {
    const ArenaFrame frame(context_.workspace());
    Backend& backend = context_.backend;
    const Tensor dlogits = context_.temporary_f32(saved.logits.shape());
    backend.run(RouterBackward{.logits = saved.logits,
                               .rule = rule_,
                               .chosen = saved.chosen,
                               .dweights = dweights,
                               .dlogits = dlogits});
    add_losses(saved, {}, dlogits, pass);
    const Tensor dy = context_.in_compute_dtype(dlogits);
    backend.run(LinearInputGrad{
        .dy = dy, .weight = weight_.weight, .gelu_input = {}, .dx = dn, .accumulate = true});
    if (!weight_.trained()) return;
    backend.run(LinearWeightGrad{.x = n, .dy = dy, .dweight = weight_.grad, .dbias = bias_.grad});
}

}  // namespace gptrain
