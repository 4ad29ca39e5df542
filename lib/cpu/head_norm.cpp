#include "cpu/head_norm.h"

#include "cpu/parallel.h"
#include "cpu/row_blocks.h"
#include "cpu/row_kernels.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// Heads are divided by their root mean square.
constexpr bool is_rms = true;

/// The heads of a tensor [T, heads, D].
template <class T>
class Heads {
public:
    explicit Heads(const Tensor& x)
        : data_(x.as<T>()), token_stride_(x.stride(0)), head_stride_(x.stride(1)) {
        GPTRAIN_CHECK(x.rank() == 3 && (x.stride(2) == 1 || x.size(2) == 1), "heads in ",
                      x.shape().to_text());
    }
    T* at(std::int64_t token, std::int64_t head) const {
        return data_ + token * token_stride_ + head * head_stride_;
    }

private:
    T* data_;
    std::int64_t token_stride_;
    std::int64_t head_stride_;
};

template <class T>
void forward(const HeadNormForward& args) {
    const std::int64_t heads = args.x.size(1);
    const std::int64_t dim = args.x.size(2);
    const Heads<T> x(args.x);
    const Heads<T> y(args.y);
    const T* weight = args.weight.as<T>();
    const RowKernels<T>& kernels = row_kernels<T>();
    parallel_ranges(args.x.size(0), 3 * heads * dim, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t token = begin; token < end; ++token) {
            for (std::int64_t head = 0; head < heads; ++head) {
                const T* from = x.at(token, head);
                const Moments moments = kernels.moments(from, dim, is_rms, args.eps);
                kernels.normalise(from, moments, weight, nullptr, y.at(token, head), dim);
            }
        }
    });
}

/// dx of one head; adds its part of dweight.
template <class T>
void head_backward(const T* dy, const T* x, const T* weight, float eps, std::int64_t dim, T* dx,
                   float* dweight) {
    const Vec8 rstd = row_kernels<T>().moments(x, dim, is_rms, eps).rstd;
    Vec8 projections = 0.0f;
    for_vectors(0, dim, [&](std::int64_t i, auto lanes) {
        const Vec8 normalised = load(x + i, lanes) * rstd;
        const Vec8 g = load(dy + i, lanes);
        projections = fma(g * load(weight + i, lanes), normalised, projections);
        store(dweight + i, fma(g, normalised, load(dweight + i, lanes)), lanes);
    });
    const Vec8 projection = projections.sum() / static_cast<float>(dim);
    for_vectors(0, dim, [&](std::int64_t i, auto lanes) {
        const Vec8 along = load(x + i, lanes) * rstd * projection;
        const Vec8 own = load(dy + i, lanes) * load(weight + i, lanes);
        store(dx + i, rstd * (own - along), lanes);
    });
}

template <class T>
void backward(const HeadNormBackward& args, Scratch& scratch) {
    const std::int64_t tokens = args.x.size(0);
    const std::int64_t heads = args.x.size(1);
    const std::int64_t dim = args.x.size(2);
    const Heads<T> dy(args.dy);
    const Heads<T> x(args.x);
    const Heads<T> dx(args.dx);
    const T* weight = args.weight.as<T>();
    const std::int64_t blocks = row_blocks(tokens);
    auto* parts = scratch.take<float>(blocks * dim);
    parallel_items(blocks, tokens / blocks * heads * dim * 4, [&](std::int64_t block) {
        float* dweight = parts + block * dim;
        std::fill(dweight, dweight + dim, 0.0f);
        for (std::int64_t t = tokens * block / blocks; t < tokens * (block + 1) / blocks; ++t) {
            for (std::int64_t head = 0; head < heads; ++head) {
                head_backward<T>(dy.at(t, head), x.at(t, head), weight, args.eps, dim,
                                 dx.at(t, head), dweight);
            }
        }
    });
    if (!args.dweight.empty()) add_parts(parts, blocks, dim, dim, args.dweight.as<float>());
}

}  // namespace

void run(const HeadNormForward& args) {
    with_compute_type(args.x.dtype(), [&](auto type) { forward<decltype(type)>(args); });
}

void run(const HeadNormBackward& args, Scratch& scratch) {
    with_compute_type(args.x.dtype(), [&](auto type) { backward<decltype(type)>(args, scratch); });
}

std::int64_t head_norm_scratch_bytes(std::int64_t tokens, std::int64_t head_dim) {
    return Scratch::bytes_of<float>(row_blocks(tokens) * head_dim);
}

}  // namespace gptrain::cpu
