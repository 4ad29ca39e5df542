#include "cases.h"

namespace gptrain {
namespace {

struct Size {
    std::int64_t tokens, experts, per_token;
    std::int64_t groups = 1;
    std::int64_t kept_groups = 1;
    bool large = false;
};

constexpr Size sizes[] = {{1, 1, 1},
                          {1, 4, 1},
                          {3, 2, 2},
                          {7, 8, 2},
                          {9, 6, 2, 6, 3},
                          {33, 12, 3, 4, 2},
                          {65, 64, 8, 8, 3},
                          {99, 130, 8},
                          {200, 9, 9},
                          {4096, 64, 6, 1, 1, true},
                          {4096, 256, 8, 8, 4, true}};

constexpr double loss_scale = 64;
constexpr double token_weight_sum = 12.5;
/// Of a loss in that of the step.
constexpr double factor = 0.75;
constexpr double gradient_scale = factor * loss_scale / token_weight_sum;

OpCase make_case(std::string_view op, const Size& size, const RouterRule& rule) {
    OpLimits limits;
    limits.sequences = 1;
    limits.seq_length = size.tokens;
    limits.experts = size.experts;
    limits.expert_slots = size.tokens * size.per_token;
    OpCase result(
        text(op, " ", name_of(rule.score), rule.normalize ? " normalize" : "", " T", size.tokens,
             " E", size.experts, " K", size.per_token, " groups", size.groups),
        limits);
    result.state.loss_scale = loss_scale;
    result.state.token_weight_sum = token_weight_sum;
    result.large = size.large;
    return result;
}

RouterRule rule_of(const Size& size, RouterScore score, bool normalize) {
    return {.score = score,
            .normalize = normalize,
            .scale = normalize ? 2.5 : 1,
            .groups = size.groups,
            .kept_groups = size.kept_groups};
}

/// Logits of which many are equal.
Values tied_logits() {
    return [integers = random_integers(-12, 13)](std::int64_t i, PhiloxKey stream) {
        return integers(i, stream) / 4;
    };
}

/// Tokens of weight 0 have infinite logits; each fourth has one far below the others.
Values masked_logits(std::int64_t experts) {
    return [=, normal = random_values(2)](std::int64_t i, PhiloxKey stream) {
        const bool far_below = i / experts % 4 == 0 && i % experts == 0;
        return is_masked(i / experts) ? INFINITY : normal(i, stream) - (far_below ? 200 : 0);
    };
}

/// Distinct experts, ascending.
Values choices(const Size& size) {
    return [=, words = random_integers(0, 1 << 20)](std::int64_t i, PhiloxKey stream) {
        const std::int64_t begin = i % size.per_token * size.experts / size.per_token;
        const std::int64_t end = (i % size.per_token + 1) * size.experts / size.per_token;
        return static_cast<double>(begin +
                                   static_cast<std::int64_t>(words(i, stream)) % (end - begin));
    };
}

// ---- the choice ----

OpCase forward(const Size& size, const RouterRule& rule, bool balanced) {
    OpCase op = make_case(balanced ? "router_forward balance" : "router_forward", size, rule);
    const auto logits = op.input(DType::f32, {size.tokens, size.experts}, tied_logits());
    const auto balance = balanced
                             ? op.input(DType::f32, {size.experts}, given([&] {
                                            std::vector<double> values;
                                            for (std::int64_t e = 0; e < size.experts; ++e)
                                                values.push_back(static_cast<double>(e % 3) / 64);
                                            return values;
                                        }()))
                             : none;
    const auto chosen = op.output(DType::i32, {size.tokens, size.per_token});
    const auto weights = op.output(DType::f32, {size.tokens, size.per_token});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(RouterForward{.logits = at[logits],
                                  .balance = at[balance],
                                  .rule = rule,
                                  .chosen = at[chosen],
                                  .weights = at[weights]});
    };
    op.reference = [=](Arrays& at) {
        reference::router_forward(rule, at[logits], at[balance], at[chosen], at[weights]);
    };
    return op;
}

OpCase backward(const Size& size, const RouterRule& rule) {
    OpCase op = make_case("router_backward", size, rule);
    const auto logits = op.input(DType::f32, {size.tokens, size.experts}, random_values(2));
    const auto chosen = op.input(DType::i32, {size.tokens, size.per_token}, choices(size));
    const auto dweights = op.input(DType::f32, {size.tokens, size.per_token}, random_values());
    const auto dlogits = op.output(DType::f32, {size.tokens, size.experts});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(RouterBackward{.logits = at[logits],
                                   .rule = rule,
                                   .chosen = at[chosen],
                                   .dweights = at[dweights],
                                   .dlogits = at[dlogits]});
    };
    op.reference = [=](Arrays& at) {
        reference::router_backward(rule, at[logits], at[chosen], at[dweights], at[dlogits]);
    };
    return op;
}

OpCase update_balance(std::int64_t experts, Skip skip) {
    OpCase op = make_case(skip == Skip::none ? "update_balance" : "update_balance skip",
                          {1, experts, 1}, {});
    op.state.skip = skip;
    // The mean of 0, 1, 2, 0, 1, 2, .. is 1 where 3 divides their number.
    const auto counts = op.input(DType::f64, {experts}, [](std::int64_t i, PhiloxKey) {
        return static_cast<double>(i % 3);
    });
    const auto balance = op.updated(DType::f32, {experts}, random_values());
    constexpr double rate = 0.001;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(UpdateBalance{
            .counts = at[counts], .balance = at[balance], .rate = rate, .step = at.step});
    };
    op.reference = [=](Arrays& at) {
        if (skip == Skip::none) reference::update_balance(at[counts], rate, at[balance]);
    };
    return op;
}

// ---- losses ----

OpCase balance_sums(const Size& size, const RouterRule& rule, std::int64_t groups) {
    OpCase op = make_case(text("balance_sums of ", groups), size, rule);
    const auto logits =
        op.input(DType::f32, {size.tokens, size.experts}, masked_logits(size.experts));
    const auto chosen = op.input(DType::i32, {size.tokens, size.per_token}, choices(size));
    const auto weights = op.input(DType::f32, {size.tokens}, token_weights());
    const auto sums = op.output(DType::f64, {groups, 2 * size.experts + 1});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(BalanceSums{.logits = at[logits],
                                .rule = rule,
                                .chosen = at[chosen],
                                .token_weights = at[weights],
                                .sums = at[sums]});
    };
    op.reference = [=](Arrays& at) {
        reference::balance_sums(rule, at[logits], at[chosen], at[weights], at[sums]);
    };
    return op;
}

enum class Wanted { loss, gradient, both };

/// The last of several groups has the weight 0 on all ranks.
OpCase balance_loss(const Size& size, const RouterRule& rule, std::int64_t groups, Wanted wanted) {
    OpCase op =
        make_case(text("balance_loss of ", groups, " ", static_cast<int>(wanted)), size, rule);
    const Shape shape = {size.tokens, size.experts};
    const auto logits = op.input(DType::f32, shape, masked_logits(size.experts));
    const auto weights = op.input(DType::f32, {size.tokens}, token_weights());
    const std::int64_t width = 2 * size.experts + 1;
    const auto sums = op.input(DType::f64, {groups, width},
                               [=, values = random_values(2, 8)](std::int64_t i, PhiloxKey stream) {
                                   const bool last = groups > 1 && i / width == groups - 1;
                                   return last ? 0 : values(i, stream);
                               });
    const auto loss =
        wanted == Wanted::gradient ? none : op.updated(DType::f64, {1}, constant(3.25));
    const auto dlogits =
        wanted == Wanted::loss ? none : op.updated(DType::f32, shape, random_values());
    constexpr double part = 0.5;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(BalanceLoss{.logits = at[logits],
                                .rule = rule,
                                .per_token = size.per_token,
                                .token_weights = at[weights],
                                .sums = at[sums],
                                .factor = factor,
                                .part = part,
                                .loss = at[loss],
                                .dlogits = at[dlogits],
                                .step = at.step});
    };
    op.reference = [=](Arrays& at) {
        reference::balance_loss(rule, size.per_token, at[logits], at[weights], at[sums], part,
                                gradient_scale, at[loss], at[dlogits]);
    };
    return op;
}

OpCase z_loss(const Size& size, Wanted wanted) {
    OpCase op = make_case(text("router_z_loss ", static_cast<int>(wanted)), size, {});
    const Shape shape = {size.tokens, size.experts};
    const auto logits = op.input(DType::f32, shape, masked_logits(size.experts));
    const auto weights = op.input(DType::f32, {size.tokens}, token_weights());
    const auto loss =
        wanted == Wanted::gradient ? none : op.updated(DType::f64, {1}, constant(3.25));
    const auto dlogits =
        wanted == Wanted::loss ? none : op.updated(DType::f32, shape, random_values());
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(RouterZLoss{.logits = at[logits],
                                .token_weights = at[weights],
                                .factor = factor,
                                .loss = at[loss],
                                .dlogits = at[dlogits],
                                .step = at.step});
    };
    op.reference = [=](Arrays& at) {
        reference::router_z_loss(at[logits], at[weights], factor, gradient_scale, at[loss],
                                 at[dlogits]);
    };
    return op;
}

// ---- measures ----

OpCase measure_router(const Size& size, const RouterRule& rule, bool with_counts) {
    OpCase op = make_case(with_counts ? "measure_router counts" : "measure_router", size, rule);
    const auto logits =
        op.input(DType::f32, {size.tokens, size.experts}, masked_logits(size.experts));
    const auto chosen = op.input(DType::i32, {size.tokens, size.per_token}, choices(size));
    const auto weights = op.input(DType::f32, {size.tokens}, token_weights());
    const auto counts = with_counts ? op.updated(DType::f64, {size.experts}, constant(2.5)) : none;
    const auto entropy = op.updated(DType::f64, {2}, constant(1.5));
    const auto sum = with_counts ? op.updated(DType::f64, {1}, constant(0.5)) : none;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(MeasureRouter{.logits = at[logits],
                                  .rule = rule,
                                  .chosen = at[chosen],
                                  .token_weights = at[weights],
                                  .counts = at[counts],
                                  .entropy = at[entropy],
                                  .weight = at[sum]});
    };
    op.reference = [=](Arrays& at) {
        reference::measure_router(rule, at[logits], at[chosen], at[weights], at[counts],
                                  at[entropy], at[sum]);
    };
    return op;
}

/// Every third layer has no counts, as an expert in others.
OpCase measure_loads(std::int64_t layers, std::int64_t experts) {
    OpCase op = make_case(text("measure_loads L", layers), {1, experts, 1}, {});
    const auto counts =
        op.input(DType::f64, {layers, experts},
                 [=, integers = random_integers(0, 5)](std::int64_t i, PhiloxKey stream) {
                     return i / experts % 3 == 1 ? 0 : integers(i, stream) / 2;
                 });
    const auto loads = op.updated(DType::f64, {layers, 2}, constant(1.5));
    const auto unused = op.updated(DType::f64, {layers, 2}, constant(2));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(MeasureLoads{.counts = at[counts], .loads = at[loads], .unused = at[unused]});
    };
    op.reference = [=](Arrays& at) { reference::measure_loads(at[counts], at[loads], at[unused]); };
    return op;
}

void add_losses(std::vector<OpCase>& cases, const Size& size, const RouterRule& rule) {
    for (const std::int64_t groups : {1, 3, 25, 99}) {
        if (size.tokens % groups != 0) continue;
        cases.push_back(balance_sums(size, rule, groups));
        for (const Wanted wanted : {Wanted::loss, Wanted::gradient, Wanted::both})
            cases.push_back(balance_loss(size, rule, groups, wanted));
    }
    for (const bool with_counts : {false, true})
        cases.push_back(measure_router(size, rule, with_counts));
}

}  // namespace

std::vector<OpCase> router_cases() {
    std::vector<OpCase> cases;
    for (const Size& size : sizes) {
        for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid}) {
            for (const bool normalize : {false, true}) {
                const RouterRule rule = rule_of(size, score, normalize);
                for (const bool balanced : {false, true})
                    cases.push_back(forward(size, rule, balanced));
                cases.push_back(backward(size, rule));
            }
            add_losses(cases, size, rule_of(size, score, true));
        }
        for (const Wanted wanted : {Wanted::loss, Wanted::gradient, Wanted::both})
            cases.push_back(z_loss(size, wanted));
    }
    for (const std::int64_t experts : {1, 7, 9, 256}) {
        for (const Skip skip : {Skip::none, Skip::not_finite})
            cases.push_back(update_balance(experts, skip));
        for (const std::int64_t layers : {1, 8})
            cases.push_back(measure_loads(layers, experts));
    }
    return cases;
}

}  // namespace gptrain
