#include "cuda/ops/muon.h"

#include "cuda/device/device.cuh"
#include "cuda/ops/step.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

constexpr int block_size = 256;
/// Elements that a thread handles, if all rows are aligned to as many.
constexpr int wide = 4;

/// The factors that all elements share. One thread of a block computes them.
struct Factors {
    float a = 0;
    float b = 0;
    int skip = 0;
};

template <class T, int width>
__device__ inline Vec<T, width> load_at(const T* data, std::int64_t at) {
    return load(reinterpret_cast<const Vec<T, width>*>(data + at));
}
template <class T, int width>
__device__ inline void store_at(T* data, std::int64_t at, const Vec<T, width>& values) {
    store(reinterpret_cast<Vec<T, width>*>(data + at), values);
}

struct Momentum {
    const StepState* state;
    const float* grad;
    float* momentum;
    float* u;
    float decay;
    bool nesterov;

    __device__ Factors factors() const {
        return {.a = static_cast<float>(state->grad_factor),
                .skip = state->skip != Skip::none ? 1 : 0};
    }
    template <int width>
    __device__ void apply(std::int64_t at, const Factors& factors) const {
        Vec<float, width> out = {};
        if (factors.skip == 0) {
            const auto grads = load_at<float, width>(grad, at);
            auto sums = load_at<float, width>(momentum, at);
            for (int i = 0; i < width; ++i) {
                const float g = grads[i] * factors.a;
                sums[i] = fma(decay, sums[i], g);
                out[i] = nesterov ? fma(decay, sums[i], g) : sums[i];
            }
            store_at(momentum, at, sums);
        }
        store_at(u, at, out);
    }
};

template <class T>
struct Normaliser {
    const double* square_sum;
    const float* from;
    T* to;
    float eps;

    __device__ Factors factors() const {
        const double norm = square_root(*square_sum);
        return {.a = static_cast<float>(1 / (norm + static_cast<double>(eps)))};
    }
    template <int width>
    __device__ void apply(std::int64_t at, const Factors& factors) const {
        const auto values = load_at<float, width>(from, at);
        Vec<T, width> out;
        for (int i = 0; i < width; ++i)
            out[i] = narrow<T>(values[i] * factors.a);
        store_at(to, at, out);
    }
};

template <class T>
struct Combination {
    T* x;
    const T* y;
    float a;
    float b;

    __device__ Factors factors() const { return {.a = a, .b = b}; }
    template <int width>
    __device__ void apply(std::int64_t at, const Factors& factors) const {
        auto values = load_at<T, width>(x, at);
        const auto others = load_at<T, width>(y, at);
        for (int i = 0; i < width; ++i)
            values[i] = narrow<T>(fma(factors.a, widen(values[i]), factors.b * widen(others[i])));
        store_at(x, at, values);
    }
};

template <class T>
struct Updater {
    const StepState* state;
    float* main_param;
    const T* x;
    T* weight;  ///< may be null
    std::int64_t columns;
    std::int64_t x_stride;
    double scale;
    double lr_scale;
    double weight_decay;

    __device__ Factors factors() const {
        const double rate = state->learning_rate * lr_scale;
        return {.a = static_cast<float>(1 - rate * weight_decay),
                .b = static_cast<float>(rate * scale),
                .skip = state->skip != Skip::none ? 1 : 0};
    }
    template <int width>
    __device__ void apply(std::int64_t at, const Factors& factors) const {
        auto params = load_at<float, width>(main_param, at);
        if (factors.skip == 0) {
            const std::int64_t row = at / columns;
            const auto updates = load_at<T, width>(x, row * x_stride + (at - row * columns));
            for (int i = 0; i < width; ++i)
                params[i] = fma(-factors.b, widen(updates[i]), params[i] * factors.a);
            store_at(main_param, at, params);
        }
        if (weight == nullptr) return;
        Vec<T, width> out;
        for (int i = 0; i < width; ++i)
            out[i] = narrow<T>(params[i]);
        store_at(weight, at, out);
    }
};

/// Applies `op` to `count` elements, a multiple of `width`.
template <class Op, int width>
__global__ void __launch_bounds__(block_size) each_element_kernel(Op op, std::int64_t count) {
    auto& factors = shared_memory<Factors>();
    if (thread_index() == 0) factors = op.factors();
    block_barrier();
    const std::int64_t at =
        (std::int64_t{block_index().x} * block_size + thread_index()) * std::int64_t{width};
    if (at < count) op.template apply<width>(at, factors);
}

/// `aligned`: all rows are multiples of `wide` elements and begin at one.
template <class Op>
void each_element(const Op& op, std::int64_t count, bool aligned, const OpContext& context) {
    const int width = aligned ? wide : 1;
    launch(context.stream,
           {.blocks = div_ceil(count, std::int64_t{block_size} * width),
            .threads = block_size,
            .shared_bytes = sizeof(Factors)},
           aligned ? each_element_kernel<Op, wide> : each_element_kernel<Op, 1>, op, count);
}

/// True if its rows are aligned to `wide` elements.
bool is_aligned(const Tensor& x) {
    if (x.empty()) return true;
    const auto bytes = static_cast<std::uintptr_t>(wide * size_of(x.dtype()));
    return reinterpret_cast<std::uintptr_t>(x.data()) % bytes == 0 && x.size(-1) % wide == 0 &&
           (x.rank() < 2 || x.stride(0) % wide == 0);
}

void check_equal(const Tensor& a, const Tensor& b, std::string_view op) {
    GPTRAIN_CHECK(a.elements() == b.elements() && a.contiguous() && b.contiguous(), op, " of ",
                  a.shape().to_text(), " and ", b.shape().to_text());
}

}  // namespace

void run(const MuonMomentum& args, const OpContext& context) {
    check_equal(args.main_grad, args.momentum, args.name);
    check_equal(args.momentum, args.u, args.name);
    const bool aligned =
        is_aligned(args.main_grad) && is_aligned(args.momentum) && is_aligned(args.u);
    each_element(Momentum{.state = step_state(args.step),
                          .grad = args.main_grad.as<float>(),
                          .momentum = args.momentum.as<float>(),
                          .u = args.u.as<float>(),
                          .decay = args.decay,
                          .nesterov = args.nesterov},
                 args.u.elements(), aligned, context);
}

void run(const Normalise& args, const OpContext& context) {
    check_equal(args.to, args.from, args.name);
    with_compute_type(args.to.dtype(), [&](auto type) {
        using T = decltype(type);
        each_element(Normaliser<T>{.square_sum = args.square_sum.as<double>(),
                                   .from = args.from.as<float>(),
                                   .to = args.to.as<T>(),
                                   .eps = args.eps},
                     args.to.elements(), is_aligned(args.to) && is_aligned(args.from), context);
    });
}

void run(const Combine& args, const OpContext& context) {
    check_equal(args.x, args.y, args.name);
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        each_element(
            Combination<T>{.x = args.x.as<T>(), .y = args.y.as<T>(), .a = args.a, .b = args.b},
            args.x.elements(), is_aligned(args.x) && is_aligned(args.y), context);
    });
}

void run(const MuonUpdate& args, const OpContext& context) {
    GPTRAIN_CHECK(args.main_param.contiguous() && args.main_param.rank() == 2 &&
                      args.main_param.shape() == args.x.shape() && args.x.stride(1) == 1,
                  "update of ", args.main_param.shape().to_text(), " by ",
                  args.x.shape().to_text());
    const bool aligned =
        is_aligned(args.main_param) && is_aligned(args.x) && is_aligned(args.weight);
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        each_element(Updater<T>{.state = step_state(args.step),
                                .main_param = args.main_param.as<float>(),
                                .x = args.x.as<T>(),
                                .weight = pointer_or_null<T>(args.weight),
                                .columns = args.main_param.size(1),
                                .x_stride = args.x.stride(0),
                                .scale = args.scale,
                                .lr_scale = args.lr_scale,
                                .weight_decay = args.weight_decay},
                     args.main_param.elements(), aligned, context);
    });
}

}  // namespace gptrain::cuda
