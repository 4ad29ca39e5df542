#include "cuda/ops/activation.h"

#include <type_traits>

#include "cuda/device/activations.cuh"
#include "cuda/device/amax.cuh"
#include "cuda/device/pieces.cuh"
#include "cuda/device/unrolled.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

template <class T>
struct ForwardArgs {
    const T* u;
    T* y;
    float* amax;  ///< amax of y, if requested
    int tokens;
    int ffn;
};

template <class T>
struct BackwardArgs {
    const T* u;
    const T* dy;
    T* du;
    float* amax;  ///< amax of du, if requested
    int tokens;
    int ffn;
};

/// The inputs of one piece; only a gated activation uses `gate`.
template <class T>
struct Inputs {
    Vec16<T> fc;
    Vec16<T> gate;
};

template <Activation activation>
__device__ inline Curve curve_of(float u) {
    if constexpr (activation == Activation::relu) {
        return relu(u);
    } else if constexpr (activation == Activation::relu2) {
        return relu2(u);
    } else if constexpr (activation == Activation::gelu_erf) {
        return gelu_erf(u);
    } else {
        return gelu(u);
    }
}

template <Activation activation>
__device__ inline GatedCurve gated_curve_of(float fc, float gate) {
    if constexpr (activation == Activation::swiglu) {
        return swiglu(fc, gate);
    } else if constexpr (activation == Activation::geglu) {
        return geglu(fc, gate);
    } else {
        return clamped_swiglu(fc, gate);
    }
}

/// `row` holds [fc | gate] of ffn elements each, or only fc.
template <Activation activation, bool aligned, class T>
__device__ inline Inputs<T> load_inputs(const T* row, int at, int ffn) {
    Inputs<T> inputs = {};
    inputs.fc = load_piece_once<aligned>(row, at, ffn);
    if constexpr (gated(activation)) inputs.gate = load_piece_once<aligned>(row + ffn, at, ffn);
    return inputs;
}

template <Activation activation, class T>
__device__ inline Vec16<T> forward_piece(const Inputs<T>& u) {
    float fc[piece_width<T>];
    widen(u.fc, fc);
    if constexpr (gated(activation)) {
        float gate[piece_width<T>];
        widen(u.gate, gate);
        for (int i = 0; i < piece_width<T>; ++i) {
            const GatedCurve at = gated_curve_of<activation>(fc[i], gate[i]);
            fc[i] = at.of_gate * at.of_up;
        }
    } else {
        for (float& x : fc)
            x = curve_of<activation>(x).value;
    }
    return narrow_piece<T>(fc);
}

/// Returns the gradients of the inputs.
template <Activation activation, class T>
__device__ inline Inputs<T> backward_piece(const Inputs<T>& u, const Vec16<T>& dy) {
    float fc[piece_width<T>];
    float gradient[piece_width<T>];
    widen(u.fc, fc);
    widen(dy, gradient);
    if constexpr (gated(activation)) {
        float gate[piece_width<T>];
        widen(u.gate, gate);
        for (int i = 0; i < piece_width<T>; ++i) {
            const GatedCurve at = gated_curve_of<activation>(fc[i], gate[i]);
            fc[i] = gradient[i] * at.up_slope;
            gate[i] = gradient[i] * at.of_up * at.gate_slope;
        }
        return {narrow_piece<T>(fc), narrow_piece<T>(gate)};
    } else {
        for (int i = 0; i < piece_width<T>; ++i)
            fc[i] = gradient[i] * curve_of<activation>(fc[i]).slope;
        return {narrow_piece<T>(fc), {}};
    }
}

template <Activation activation, bool aligned, class T, bool with_amax>
__device__ inline void forward_column(const ForwardArgs<T>& args, int at,
                                      RunningAmax<with_amax>& amax) {
    constexpr int widths = gated(activation) ? 2 : 1;
    Inputs<T> u[rows_per_block];
    for (int i = 0; i < rows_per_block; ++i) {
        const T* row = args.u + block_row(i, args.tokens) * args.ffn * widths;
        u[i] = load_inputs<activation, aligned>(row, at, args.ffn);
    }
    for (int i = 0; i < rows_per_block; ++i) {
        if (!is_block_row(i, args.tokens)) continue;
        const Vec16<T> y = forward_piece<activation, T>(u[i]);
        store_piece<aligned>(args.y + block_row(i, args.tokens) * args.ffn, at, args.ffn, y);
        amax.template add<aligned>(y, at, args.ffn);
    }
}

template <class T, Activation activation, bool aligned, bool with_amax>
__global__ void __launch_bounds__(256) forward_kernel(ForwardArgs<T> args) {
    const int at = thread_piece<T>();
    RunningAmax<with_amax> amax;
    if (at < args.ffn) forward_column<activation, aligned>(args, at, amax);
    amax.merge(shared_memory<WarpAmax>().values, args.amax);
}

template <Activation activation, bool aligned, class T, bool with_amax>
__device__ inline void backward_column(const BackwardArgs<T>& args, int at,
                                       RunningAmax<with_amax>& amax) {
    constexpr int widths = gated(activation) ? 2 : 1;
    Inputs<T> u[rows_per_block];
    Vec16<T> dy[rows_per_block];
    for (int i = 0; i < rows_per_block; ++i) {
        const std::int64_t row = block_row(i, args.tokens);
        u[i] = load_inputs<activation, aligned>(args.u + row * args.ffn * widths, at, args.ffn);
        dy[i] = load_piece_once<aligned>(args.dy + row * args.ffn, at, args.ffn);
    }
    unrolled<rows_per_block>([&](int i) {
        if (!is_block_row(i, args.tokens)) return;
        T* row = args.du + block_row(i, args.tokens) * args.ffn * widths;
        const Inputs<T> du = backward_piece<activation, T>(u[i], dy[i]);
        store_piece<aligned>(row, at, args.ffn, du.fc);
        amax.template add<aligned>(du.fc, at, args.ffn);
        if constexpr (gated(activation)) {
            store_piece<aligned>(row + args.ffn, at, args.ffn, du.gate);
            amax.template add<aligned>(du.gate, at, args.ffn);
        }
    });
}

template <class T, Activation activation, bool aligned, bool with_amax>
__global__ void __launch_bounds__(256) backward_kernel(BackwardArgs<T> args) {
    const int at = thread_piece<T>();
    RunningAmax<with_amax> amax;
    if (at < args.ffn) backward_column<activation, aligned>(args, at, amax);
    amax.merge(shared_memory<WarpAmax>().values, args.amax);
}

/// Checks the shapes of ActivationForward.
void check_shapes(Activation activation, const Tensor& u, const Tensor& y) {
    GPTRAIN_CHECK(u.rank() == 2 && y.rank() == 2 && u.size(0) == y.size(0) &&
                      u.size(1) == input_width(activation, y.size(1)) && u.contiguous() &&
                      y.contiguous(),
                  "activation from ", u.shape().to_text(), " to ", y.shape().to_text());
    GPTRAIN_CHECK(u.size(0) <= INT32_MAX && u.size(1) <= INT32_MAX, "too many rows or columns in ",
                  u.shape().to_text());
}

template <class Args, class Kernel>
void launch_pieces(const Args& args, int width, Kernel kernel, const OpContext& context) {
    const PieceGrid grid = piece_grid(args.tokens, args.ffn, width);
    launch(context.stream,
           {.blocks = grid.blocks,
            .threads = grid.threads,
            .shared_bytes = sizeof(WarpAmax),
            .blocks_y = grid.columns},
           kernel, args);
}

/// Calls f with the activation function as a compile-time constant.
template <class F>
auto with_activation(Activation activation, const F& f) {
    using enum Activation;
    switch (activation) {
        case gelu: return f(std::integral_constant<Activation, gelu>());
        case gelu_erf: return f(std::integral_constant<Activation, gelu_erf>());
        case relu: return f(std::integral_constant<Activation, relu>());
        case relu2: return f(std::integral_constant<Activation, relu2>());
        case geglu: return f(std::integral_constant<Activation, geglu>());
        case clamped_swiglu: return f(std::integral_constant<Activation, clamped_swiglu>());
        case swiglu: break;
    }
    return f(std::integral_constant<Activation, swiglu>());
}

template <class T, bool with_amax>
auto* choose_forward(Activation activation, bool aligned) {
    return with_activation(activation, [&](auto chosen) {
        return aligned ? forward_kernel<T, chosen(), true, with_amax>
                       : forward_kernel<T, chosen(), false, with_amax>;
    });
}
template <class T, bool with_amax>
auto* choose_backward(Activation activation, bool aligned) {
    return with_activation(activation, [&](auto chosen) {
        return aligned ? backward_kernel<T, chosen(), true, with_amax>
                       : backward_kernel<T, chosen(), false, with_amax>;
    });
}

template <class T>
void forward(const ActivationForward& op, const OpContext& context) {
    const ForwardArgs<T> args = {.u = op.u.as<T>(),
                                 .y = op.y.as<T>(),
                                 .amax = pointer_or_null<float>(op.amax),
                                 .tokens = static_cast<int>(op.y.size(0)),
                                 .ffn = static_cast<int>(op.y.size(1))};
    const bool aligned =
        is_aligned(args.u, args.ffn, args.ffn) && is_aligned(args.y, args.ffn, args.ffn);
    auto* kernel = args.amax == nullptr ? choose_forward<T, false>(op.activation, aligned)
                                        : choose_forward<T, true>(op.activation, aligned);
    launch_pieces(args, piece_width<T>, kernel, context);
}

template <class T>
void backward(const ActivationBackward& op, const OpContext& context) {
    const BackwardArgs<T> args = {.u = op.u.as<T>(),
                                  .dy = op.dy.as<T>(),
                                  .du = op.du.as<T>(),
                                  .amax = pointer_or_null<float>(op.amax),
                                  .tokens = static_cast<int>(op.dy.size(0)),
                                  .ffn = static_cast<int>(op.dy.size(1))};
    const bool aligned = is_aligned(args.u, args.ffn, args.ffn) &&
                         is_aligned(args.dy, args.ffn, args.ffn) &&
                         is_aligned(args.du, args.ffn, args.ffn);
    auto* kernel = args.amax == nullptr ? choose_backward<T, false>(op.activation, aligned)
                                        : choose_backward<T, true>(op.activation, aligned);
    launch_pieces(args, piece_width<T>, kernel, context);
}

}  // namespace

void run(const ActivationForward& args, const OpContext& context) {
    check_shapes(args.activation, args.u, args.y);
    with_compute_type(args.u.dtype(), [&](auto type) { forward<decltype(type)>(args, context); });
}

void run(const ActivationBackward& args, const OpContext& context) {
    check_shapes(args.activation, args.u, args.dy);
    GPTRAIN_CHECK(args.du.shape() == args.u.shape() && args.du.contiguous(), "du of ",
                  args.du.shape().to_text());
    with_compute_type(args.u.dtype(), [&](auto type) { backward<decltype(type)>(args, context); });
}

}  // namespace gptrain::cuda
