#include "cpu/muon.h"

#include <cmath>

#include "cpu/parallel.h"
#include "cpu/step.h"
#include "cpu/values.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// Calls f(i, lanes) for vectors of the elements, on all threads.
void for_elements(std::int64_t count, const auto& f) {
    parallel_ranges(count, 4, 64,
                    [&](std::int64_t begin, std::int64_t end) { for_vectors(begin, end, f); });
}

void check_equal(const Tensor& a, const Tensor& b, std::string_view op) {
    GPTRAIN_CHECK(a.elements() == b.elements() && a.contiguous() && b.contiguous(), op, " of ",
                  a.shape().to_text(), " and ", b.shape().to_text());
}

template <class T>
void update(const MuonUpdate& args, const StepState& state) {
    const double rate = state.learning_rate * args.lr_scale;
    const Vec8 decay = static_cast<float>(1 - rate * args.weight_decay);
    const Vec8 factor = static_cast<float>(rate * args.scale);
    const std::int64_t columns = args.main_param.size(1);
    const T* x = args.x.as<T>();
    auto* param = args.main_param.as<float>();
    T* weight = pointer_or_null<T>(args.weight);
    parallel_ranges(
        args.main_param.size(0), 4 * columns, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const T* from = x + row * args.x.stride(0);
                const std::int64_t at = row * columns;
                for_vectors(0, columns, [&](std::int64_t i, auto lanes) {
                    const Vec8 p =
                        fnma(factor, load(from + i, lanes), load(param + at + i, lanes) * decay);
                    store(param + at + i, p, lanes);
                    if (weight != nullptr) store(weight + at + i, p, lanes);
                });
            }
        });
}

}  // namespace

void run(const MuonMomentum& args) {
    check_equal(args.main_grad, args.momentum, args.name);
    check_equal(args.momentum, args.u, args.name);
    const StepState& state = step_state(args.step);
    if (state.skip != Skip::none) return run(Fill{.x = args.u, .value = 0});
    const Vec8 factor = static_cast<float>(state.grad_factor);
    const Vec8 decay = args.decay;
    const auto* grad = args.main_grad.as<float>();
    auto* momentum = args.momentum.as<float>();
    auto* u = args.u.as<float>();
    for_elements(args.u.elements(), [&](std::int64_t i, auto lanes) {
        const Vec8 g = load(grad + i, lanes) * factor;
        const Vec8 m = fma(decay, load(momentum + i, lanes), g);
        store(momentum + i, m, lanes);
        store(u + i, args.nesterov ? fma(decay, m, g) : m, lanes);
    });
}

void run(const Normalise& args) {
    check_equal(args.to, args.from, args.name);
    const double norm = std::sqrt(*args.square_sum.as<double>());
    const Vec8 factor = static_cast<float>(1 / (norm + double{args.eps}));
    const auto* from = args.from.as<float>();
    with_compute_type(args.to.dtype(), [&](auto type) {
        auto* to = args.to.as<decltype(type)>();
        for_elements(args.to.elements(), [&](std::int64_t i, auto lanes) {
            store(to + i, load(from + i, lanes) * factor, lanes);
        });
    });
}

void run(const Combine& args) {
    check_equal(args.x, args.y, args.name);
    const Vec8 a = args.a;
    const Vec8 b = args.b;
    with_compute_type(args.x.dtype(), [&](auto type) {
        auto* x = args.x.as<decltype(type)>();
        const auto* y = args.y.as<decltype(type)>();
        for_elements(args.x.elements(), [&](std::int64_t i, auto lanes) {
            store(x + i, fma(a, load(x + i, lanes), b * load(y + i, lanes)), lanes);
        });
    });
}

void run(const MuonUpdate& args) {
    GPTRAIN_CHECK(args.main_param.contiguous() && args.main_param.rank() == 2 &&
                      args.main_param.shape() == args.x.shape() && args.x.stride(1) == 1,
                  "update of ", args.main_param.shape().to_text(), " by ",
                  args.x.shape().to_text());
    const StepState& state = step_state(args.step);
    if (state.skip != Skip::none) {
        if (!args.weight.empty()) run(Cast{.to = args.weight, .from = args.main_param});
        return;
    }
    with_compute_type(args.x.dtype(), [&](auto type) { update<decltype(type)>(args, state); });
}

}  // namespace gptrain::cpu
