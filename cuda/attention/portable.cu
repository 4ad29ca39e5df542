#include "cuda/attention/portable.h"

#include "cuda/attention/kernels.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda {
namespace {

/// True if the tensor-core kernels support the op. T is the compute dtype.
template <class T>
bool tiled(const AttentionParams& p) {
    return p.head_dim % 8 == 0 && aligned_16<T>(p.q) && aligned_16<T>(p.k) && aligned_16<T>(p.v) &&
           aligned_16<T>(p.o);
}
template <class T>
bool tiled(const AttentionParams& p, const AttentionGradients& g) {
    const auto aligned = [&](const HeadTensor& tensor) {
        return g.accumulate ? aligned_16<float>(tensor) : aligned_16<T>(tensor);
    };
    return tiled<T>(p) && aligned_16<T>(g.d_o) && aligned(g.dq) && aligned(g.dk) && aligned(g.dv);
}

template <class T>
void run_forward(const AttentionParams& params, const Stream& stream) {
    if constexpr (!std::is_same_v<T, float>) {
        if (tiled<T>(params)) return tiled_attention_forward<T>(params, stream);
    }
    plain_attention_forward<T>(params, stream);
}

template <class T>
void run_backward(const AttentionParams& params, const AttentionGradients& gradients, float* delta,
                  const Stream& stream) {
    attention_delta<T>(params, gradients, delta, stream);
    if constexpr (!std::is_same_v<T, float>) {
        if (tiled<T>(params, gradients)) {
            tiled_attention_backward_queries<T>(params, gradients, stream);
            return tiled_attention_backward_keys<T>(params, gradients, stream);
        }
    }
    plain_attention_backward<T>(params, gradients, stream);
}

}  // namespace

void portable_attention_forward(const AttentionForward& args, const OpContext& context) {
    const AttentionParams params = attention_params(args);
    with_compute_type(args.q.dtype(),
                      [&](auto type) { run_forward<decltype(type)>(params, context.stream); });
}

void portable_attention_backward(const AttentionBackward& args, const OpContext& context) {
    const AttentionParams params = attention_params(args.forward);
    auto* delta =
        context.scratch.take<float>(std::int64_t{params.sequences} * params.heads * params.queries);
    const AttentionGradients gradients = attention_gradients(args, delta);
    with_compute_type(args.forward.q.dtype(), [&](auto type) {
        run_backward<decltype(type)>(params, gradients, delta, context.stream);
    });
}

}  // namespace gptrain::cuda
