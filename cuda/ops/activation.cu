#include "cuda/ops/activation.h"

#include <type_traits>

#include "cuda/device/activations.cuh"
#include "cuda/device/amax.cuh"
#include "cuda/device/fp8_rows.cuh"
#include "cuda/device/pieces.cuh"
#include "cuda/device/unrolled.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

template <class T>
struct ForwardArgs {
    const T* u;
    T* y;         ///< may be null with y8
    float* amax;  ///< amax of y, if requested
    Fp8Rows y8;   ///< if requested
    int tokens;
    int ffn;
};

template <class T>
struct BackwardArgs {
    const T* u;
    const T* dy;
    T* du;
    float* amax;  ///< amax of du, if requested
    Fp8Rows du8;  ///< if requested
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

/// With FP8 rows all lanes of a warp take part: those behind the end of the row are not `inside`.
template <Activation activation, bool aligned, Beside beside, class T>
__device__ inline void forward_column(const ForwardArgs<T>& args, int at, bool inside,
                                      RunningAmax<beside == Beside::amax>& amax) {
    constexpr int widths = gated(activation) ? 2 : 1;
    Inputs<T> u[rows_per_block] = {};
    for (int i = 0; inside && i < rows_per_block; ++i) {
        const T* row = args.u + block_row(i, args.tokens) * args.ffn * widths;
        u[i] = load_inputs<activation, aligned>(row, at, args.ffn);
    }
    for (int i = 0; i < rows_per_block; ++i) {
        if (!is_block_row(i, args.tokens)) continue;
        const Vec16<T> y = forward_piece<activation, T>(u[i]);
        const std::int64_t row = block_row(i, args.tokens);
        if (beside != Beside::fp8_rows || (inside && args.y != nullptr))
            store_piece<aligned>(args.y + row * args.ffn, at, args.ffn, y);
        amax.template add<aligned>(y, at, args.ffn);
        if constexpr (beside == Beside::fp8_rows) args.y8.store_piece(row, at, inside, y);
    }
}

template <class T, Activation activation, bool aligned, Beside beside>
__global__ void __launch_bounds__(256) forward_kernel(ForwardArgs<T> args) {
    const int at = thread_piece<T>();
    const bool inside = at < args.ffn;
    RunningAmax<beside == Beside::amax> amax;
    if (inside || beside == Beside::fp8_rows)
        forward_column<activation, aligned, beside>(args, at, inside, amax);
    amax.merge(shared_memory<WarpAmax>().values, args.amax);
}

template <Activation activation, bool aligned, Beside beside, class T>
__device__ inline void backward_column(const BackwardArgs<T>& args, int at, bool inside,
                                       RunningAmax<beside == Beside::amax>& amax) {
    constexpr int widths = gated(activation) ? 2 : 1;
    Inputs<T> u[rows_per_block] = {};
    Vec16<T> dy[rows_per_block] = {};
    for (int i = 0; inside && i < rows_per_block; ++i) {
        const std::int64_t row = block_row(i, args.tokens);
        u[i] = load_inputs<activation, aligned>(args.u + row * args.ffn * widths, at, args.ffn);
        dy[i] = load_piece_once<aligned>(args.dy + row * args.ffn, at, args.ffn);
    }
    unrolled<rows_per_block>([&](int i) {
        if (!is_block_row(i, args.tokens)) return;
        const std::int64_t row = block_row(i, args.tokens);
        const Inputs<T> du = backward_piece<activation, T>(u[i], dy[i]);
        const auto write = [&](int first, const Vec16<T>& piece) {
            if (inside)
                store_piece<aligned>(args.du + row * args.ffn * widths + first, at, args.ffn,
                                     piece);
            amax.template add<aligned>(piece, at, args.ffn);
            if constexpr (beside == Beside::fp8_rows)
                args.du8.store_piece(row, first + at, inside, piece);
        };
        write(0, du.fc);
        if constexpr (gated(activation)) write(args.ffn, du.gate);
    });
}

template <class T, Activation activation, bool aligned, Beside beside>
__global__ void __launch_bounds__(256) backward_kernel(BackwardArgs<T> args) {
    const int at = thread_piece<T>();
    const bool inside = at < args.ffn;
    RunningAmax<beside == Beside::amax> amax;
    if (inside || beside == Beside::fp8_rows)
        backward_column<activation, aligned, beside>(args, at, inside, amax);
    amax.merge(shared_memory<WarpAmax>().values, args.amax);
}

/// Checks the shapes of u and of y or dy.
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

template <class T, Beside beside>
auto* choose_forward(Activation activation, bool aligned) {
    return with_activation(activation, [&](auto chosen) {
        if constexpr (beside != Beside::fp8_rows) {
            if (!aligned) return forward_kernel<T, chosen(), false, beside>;
        }
        return forward_kernel<T, chosen(), true, beside>;
    });
}
template <class T, Beside beside>
auto* choose_backward(Activation activation, bool aligned) {
    return with_activation(activation, [&](auto chosen) {
        if constexpr (beside != Beside::fp8_rows) {
            if (!aligned) return backward_kernel<T, chosen(), false, beside>;
        }
        return backward_kernel<T, chosen(), true, beside>;
    });
}

template <class T>
void forward(const ActivationForward& op, const OpContext& context) {
    const ForwardArgs<T> args = {.u = op.u.as<T>(),
                                 .y = pointer_or_null<T>(op.y),
                                 .amax = pointer_or_null<float>(op.amax),
                                 .y8 = Fp8Rows(op.y8),
                                 .tokens = static_cast<int>(op.u.size(0)),
                                 .ffn = static_cast<int>(op.width())};
    const bool aligned =
        is_aligned(args.u, args.ffn, args.ffn) && is_aligned(args.y, args.ffn, args.ffn);
    auto* kernel = with_beside<T>(args.y8, args.amax, aligned, [&](auto beside) {
        return choose_forward<T, beside()>(op.activation, aligned);
    });
    launch_pieces(args, piece_width<T>, kernel, context);
}

template <class T>
void backward(const ActivationBackward& op, const OpContext& context) {
    const BackwardArgs<T> args = {.u = op.u.as<T>(),
                                  .dy = op.dy.as<T>(),
                                  .du = op.du.as<T>(),
                                  .amax = pointer_or_null<float>(op.amax),
                                  .du8 = Fp8Rows(op.du8),
                                  .tokens = static_cast<int>(op.dy.size(0)),
                                  .ffn = static_cast<int>(op.dy.size(1))};
    const bool aligned = is_aligned(args.u, args.ffn, args.ffn) &&
                         is_aligned(args.dy, args.ffn, args.ffn) &&
                         is_aligned(args.du, args.ffn, args.ffn);
    auto* kernel = with_beside<T>(args.du8, args.amax, aligned, [&](auto beside) {
        return choose_backward<T, beside()>(op.activation, aligned);
    });
    launch_pieces(args, piece_width<T>, kernel, context);
}

}  // namespace

void run(const ActivationForward& args, const OpContext& context) {
    check_shapes(args.activation, args.u, args.y.empty() ? args.y8.rowwise : args.y);
    with_compute_type(args.u.dtype(), [&](auto type) { forward<decltype(type)>(args, context); });
}

void run(const ActivationBackward& args, const OpContext& context) {
    check_shapes(args.activation, args.u, args.dy);
    GPTRAIN_CHECK(args.du.shape() == args.u.shape() && args.du.contiguous(), "du of ",
                  args.du.shape().to_text());
    with_compute_type(args.u.dtype(), [&](auto type) { backward<decltype(type)>(args, context); });
}

}  // namespace gptrain::cuda
