#include "cpu/activation.h"

#include "cpu/fp8.h"
#include "cpu/parallel.h"
#include "cpu/vector8.h"
#include "cpu/vector_math.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// Cost of one element, relative to an addition.
constexpr std::int64_t exp_cost = 4;

/// `function` returns the Curve of a vector.
template <class T>
void curve_forward(const ActivationForward& args, const auto& function) {
    const T* u = args.u.as<T>();
    T* y = args.y.as<T>();
    parallel_ranges(args.y.elements(), exp_cost, 64, [&](std::int64_t begin, std::int64_t end) {
        for_vectors(begin, end, [&](std::int64_t i, auto lanes) {
            store(y + i, function(load(u + i, lanes)).value, lanes);
        });
    });
}

template <class T>
void curve_backward(const ActivationBackward& args, const auto& function) {
    const T* u = args.u.as<T>();
    const T* dy = args.dy.as<T>();
    T* du = args.du.as<T>();
    parallel_ranges(args.dy.elements(), exp_cost, 64, [&](std::int64_t begin, std::int64_t end) {
        for_vectors(begin, end, [&](std::int64_t i, auto lanes) {
            store(du + i, load(dy + i, lanes) * function(load(u + i, lanes)).slope, lanes);
        });
    });
}

template <class T>
void swiglu_forward(const ActivationForward& args) {
    const std::int64_t ffn = args.y.size(1);
    const Rows<T> u(args.u);
    const Rows<T> y(args.y);
    parallel_ranges(args.y.size(0), exp_cost * ffn, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
            for_vectors(0, ffn, [&](std::int64_t f, auto lanes) {
                const Vec8 gate = load(u[t] + ffn + f, lanes);
                const Vec8 silu = gate * logistic(gate).value;
                store(y[t] + f, silu * load(u[t] + f, lanes), lanes);
            });
        }
    });
}

template <class T>
void swiglu_backward(const ActivationBackward& args) {
    const std::int64_t ffn = args.dy.size(1);
    const Rows<T> u(args.u);
    const Rows<T> dy(args.dy);
    const Rows<T> du(args.du);
    parallel_ranges(args.dy.size(0), exp_cost * ffn, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
            for_vectors(0, ffn, [&](std::int64_t f, auto lanes) {
                const Vec8 fc = load(u[t] + f, lanes);
                const Vec8 gate = load(u[t] + ffn + f, lanes);
                const Vec8 gradient = load(dy[t] + f, lanes);
                const auto s = logistic(gate);
                const Vec8 tail = s.exp_minus * s.value;  // 1 - s
                const Vec8 slope = s.value * fma(gate, tail, Vec8(1.0f));
                store(du[t] + f, gradient * (gate * s.value), lanes);
                store(du[t] + ffn + f, gradient * fc * slope, lanes);
            });
        }
    });
}

}  // namespace

void run(const ActivationForward& args) {
    with_compute_type(args.u.dtype(), [&](auto type) {
        using T = decltype(type);
        switch (args.activation) {
            case Activation::gelu: return curve_forward<T>(args, gelu<Vec8>);
            case Activation::gelu_erf: return curve_forward<T>(args, gelu_erf<Vec8>);
            case Activation::swiglu: return swiglu_forward<T>(args);
            case Activation::relu: return curve_forward<T>(args, relu<Vec8>);
        }
    });
    if (!args.amax.empty()) run(UpdateAmax{.x = args.y, .amax = args.amax});
}

void run(const ActivationBackward& args) {
    with_compute_type(args.u.dtype(), [&](auto type) {
        using T = decltype(type);
        switch (args.activation) {
            case Activation::gelu: return curve_backward<T>(args, gelu<Vec8>);
            case Activation::gelu_erf: return curve_backward<T>(args, gelu_erf<Vec8>);
            case Activation::swiglu: return swiglu_backward<T>(args);
            case Activation::relu: return curve_backward<T>(args, relu<Vec8>);
        }
    });
    if (!args.amax.empty()) run(UpdateAmax{.x = args.du, .amax = args.amax});
}

}  // namespace gptrain::cpu
