#include "cpu/activation.h"

#include <vector>

#include "cpu/fp8.h"
#include "cpu/parallel.h"
#include "cpu/row_kernels.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// Cost of one element, relative to an addition.
constexpr std::int64_t activation_cost = 4;

/// y8, and y unless it is empty, row by row.
template <class T>
void run_forward_in_fp8(const ActivationForward& args) {
    const RowKernels<T>& kernels = row_kernels<T>();
    const std::int64_t ffn = args.width();
    const Rows<T> u(args.u);
    const Rows<T> y(args.y);
    parallel_ranges(args.u.size(0), activation_cost * ffn, 1,
                    [&](std::int64_t begin, std::int64_t end) {
                        std::vector<T> own(static_cast<std::size_t>(y ? 0 : ffn));
                        for (std::int64_t t = begin; t < end; ++t) {
                            T* to = y ? y[t] : own.data();
                            if (gated(args.activation)) {
                                kernels.gate(args.activation, u[t], u[t] + ffn, to, ffn);
                            } else {
                                kernels.activate(args.activation, u[t], to, ffn);
                            }
                            to_fp8_row(to, args.y8, t);
                        }
                    });
}

template <class T>
void run_forward(const ActivationForward& args) {
    if (!args.y8.empty()) return run_forward_in_fp8<T>(args);
    const RowKernels<T>& kernels = row_kernels<T>();
    if (!gated(args.activation)) {
        const T* u = args.u.as<T>();
        T* y = args.y.as<T>();
        const auto activate = [&](std::int64_t begin, std::int64_t end) {
            kernels.activate(args.activation, u + begin, y + begin, end - begin);
        };
        return parallel_ranges(args.y.elements(), activation_cost, 64, activate);
    }
    const std::int64_t ffn = args.y.size(1);
    const Rows<T> u(args.u);
    const Rows<T> y(args.y);
    parallel_ranges(args.y.size(0), activation_cost * ffn, 1,
                    [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t t = begin; t < end; ++t)
                            kernels.gate(args.activation, u[t], u[t] + ffn, y[t], ffn);
                    });
}

template <class T>
void run_backward(const ActivationBackward& args) {
    const RowKernels<T>& kernels = row_kernels<T>();
    if (!gated(args.activation)) {
        const T* u = args.u.as<T>();
        const T* dy = args.dy.as<T>();
        T* du = args.du.as<T>();
        const auto activate = [&](std::int64_t begin, std::int64_t end) {
            kernels.activate_backward(args.activation, u + begin, dy + begin, du + begin,
                                      end - begin);
        };
        return parallel_ranges(args.dy.elements(), activation_cost, 64, activate);
    }
    const std::int64_t ffn = args.dy.size(1);
    const Rows<T> u(args.u);
    const Rows<T> dy(args.dy);
    const Rows<T> du(args.du);
    parallel_ranges(args.dy.size(0), activation_cost * ffn, 1,
                    [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t t = begin; t < end; ++t)
                            kernels.gate_backward(args.activation, u[t], u[t] + ffn, dy[t], du[t],
                                                  du[t] + ffn, ffn);
                    });
}

}  // namespace

void run(const ActivationForward& args) {
    with_compute_type(args.u.dtype(), [&](auto type) { run_forward<decltype(type)>(args); });
    if (!args.amax.empty()) run(UpdateAmax{.x = args.y, .amax = args.amax});
}

void run(const ActivationBackward& args) {
    with_compute_type(args.u.dtype(), [&](auto type) { run_backward<decltype(type)>(args); });
    if (!args.amax.empty()) run(UpdateAmax{.x = args.du, .amax = args.amax});
    if (!args.du8.empty()) run(ToFp8Rows{.x = args.du, .out = args.du8});
}

}  // namespace gptrain::cpu
