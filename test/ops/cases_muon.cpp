#include "cases.h"

namespace gptrain {
namespace {

OpCase make_case(std::string name, DType dtype, std::int64_t elements) {
    OpLimits limits;
    limits.compute = dtype;
    OpCase op(std::move(name), limits);
    op.large = elements > 1000000;
    return op;
}

/// `begin`: place of the first element in its storage, which decides its alignment.
Operand part(OpCase& op, Role role, DType dtype, std::int64_t begin, std::int64_t count,
             const Values& values = Values()) {
    return op.part(
        role, op.storage(dtype, {begin + count}),
        [=](const Tensor& whole) { return whole.slice(0, begin, count); }, values);
}

OpCase momentum(std::int64_t begin, std::int64_t count, bool nesterov, bool skip) {
    OpCase op = make_case(text("muon_momentum ", count, " from ", begin,
                               nesterov ? " nesterov" : "", skip ? " skip" : ""),
                          DType::f32, count);
    op.state.grad_factor = 0.37;
    op.state.skip = skip ? Skip::not_finite : Skip::none;
    const auto grad = part(op, Role::input, DType::f32, begin, count, random_values(0.1));
    const auto sums = part(op, Role::updated, DType::f32, begin, count, random_values());
    const auto u = part(op, Role::output, DType::f32, begin, count);
    constexpr float decay = 0.9f;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(MuonMomentum{.main_grad = at[grad],
                                 .momentum = at[sums],
                                 .u = at[u],
                                 .decay = decay,
                                 .nesterov = nesterov,
                                 .step = at.step});
    };
    op.reference = [=, factor = op.state.grad_factor](Arrays& at) {
        const Bounded mu = double{decay};
        for (std::int64_t i = 0; i < count; ++i) {
            at[u](i) = 0.0;
            if (skip) continue;
            const Bounded g = at[grad](i) * rounded(factor);
            at[sums](i) = mu * at[sums](i) + g;
            at[u](i) = nesterov ? g + mu * at[sums](i) : at[sums](i);
        }
    };
    return op;
}

OpCase normalise(DType dtype, std::int64_t begin, std::int64_t count, double squares) {
    OpCase op =
        make_case(text("normalise ", name_of(dtype), " ", count, " from ", begin, " by ", squares),
                  dtype, count);
    const auto from = part(op, Role::input, DType::f32, begin, count, random_values());
    const auto sum = op.input(DType::f64, {1}, constant(squares));
    const auto to = part(op, Role::output, dtype, begin, count);
    constexpr float eps = 1e-3f;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(Normalise{.from = at[from], .square_sum = at[sum], .to = at[to], .eps = eps});
    };
    op.reference = [=](Arrays& at) {
        const Bounded factor = rounded(1 / (std::sqrt(squares) + double{eps}));
        for (std::int64_t i = 0; i < count; ++i)
            at[to](i) = at[from](i) * factor;
    };
    return op;
}

OpCase combine(DType dtype, std::int64_t begin, std::int64_t count) {
    OpCase op =
        make_case(text("combine ", name_of(dtype), " ", count, " from ", begin), dtype, count);
    const auto x = part(op, Role::updated, dtype, begin, count, random_values());
    const auto y = part(op, Role::input, dtype, begin, count, random_values());
    constexpr float a = 3.25f;
    constexpr float b = -1.7f;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(Combine{.x = at[x], .y = at[y], .a = a, .b = b});
    };
    op.reference = [=](Arrays& at) {
        for (std::int64_t i = 0; i < count; ++i)
            at[x](i) = Bounded(double{a}) * at[x](i) + Bounded(double{b}) * at[y](i);
    };
    return op;
}

OpCase update(DType dtype, const Shape& shape, std::int64_t gap, bool skip) {
    OpCase op = make_case(text("muon_update ", name_of(dtype), " ", shape.to_text(), " gap ", gap,
                               skip ? " skip" : ""),
                          dtype, shape.elements());
    op.state.learning_rate = 0.013;
    op.state.skip = skip ? Skip::loss_limit : Skip::none;
    const auto param = op.updated(DType::f32, shape, random_values());
    const auto x = op.input(dtype, shape, random_values(0.2), gap);
    const auto weight = dtype == DType::f32 ? none : op.updated(dtype, shape, random_values());
    constexpr double scale = 2.7;
    constexpr double lr_scale = 1.5;
    constexpr double weight_decay = 0.3;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(MuonUpdate{.main_param = at[param],
                               .x = at[x],
                               .weight = at[weight],
                               .scale = scale,
                               .lr_scale = lr_scale,
                               .weight_decay = weight_decay,
                               .step = at.step});
    };
    op.reference = [=, lr = op.state.learning_rate](Arrays& at) {
        const Bounded decay = rounded(1 - lr * lr_scale * weight_decay);
        const Bounded factor = rounded(lr * lr_scale * scale);
        for (std::int64_t row = 0; row < shape[0] && !skip; ++row) {
            for (std::int64_t i = 0; i < shape[1]; ++i)
                at[param](row, i) = at[param](row, i) * decay - factor * at[x](row, i);
        }
        at[weight].values() = at[param].values();
    };
    return op;
}

}  // namespace

std::vector<OpCase> muon_cases() {
    std::vector<OpCase> cases;
    for (const bool skip : {false, true}) {
        cases.push_back(momentum(0, 1, true, skip));
        cases.push_back(momentum(0, 4100, true, skip));
        cases.push_back(momentum(3, 4107, false, skip));
    }
    cases.push_back(momentum(0, 38597376, true, false));
    for (const DType dtype : compute_dtypes) {
        cases.push_back(normalise(dtype, 0, 1, 4));
        cases.push_back(normalise(dtype, 0, 4100, 77));
        cases.push_back(normalise(dtype, 3, 4107, 0));
        cases.push_back(normalise(dtype, 0, 38597376, 5));
        cases.push_back(combine(dtype, 0, 1));
        cases.push_back(combine(dtype, 0, 4100));
        cases.push_back(combine(dtype, 1, 4107));
        cases.push_back(combine(dtype, 0, 38597376));
        for (const bool skip : {false, true}) {
            cases.push_back(update(dtype, {1, 1}, 0, skip));
            cases.push_back(update(dtype, {7, 24}, 0, skip));
            cases.push_back(update(dtype, {7, 24}, 8, skip));
            cases.push_back(update(dtype, {33, 17}, 5, skip));
        }
        cases.push_back(update(dtype, {5000, 4000}, 0, false));
    }
    return cases;
}

}  // namespace gptrain
