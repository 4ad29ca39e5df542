#include "cpu/row_norm.h"

#include <algorithm>
#include <cmath>

#include "cpu/parallel.h"
#include "cpu/row_blocks.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

float rstd_of(const RowNormForward& args, std::int64_t token) {
    const float mean = args.squares.as<float>()[token] / static_cast<float>(args.width);
    return 1.0f / std::sqrt(mean + args.eps);
}

template <class T>
void dots(const RowDots& args) {
    const std::int64_t width = args.x.size(1);
    const Rows<T> x(args.x);
    const Rows<T> z(args.z);
    const T* weight = pointer_or_null<T>(args.weight);
    auto* dots = args.dots.as<float>();
    parallel_ranges(args.x.size(0), 2 * width, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
            Vec8 sum = 0.0f;
            for_vectors(0, width, [&](std::int64_t i, auto lanes) {
                Vec8 factor = load(z[t] + i, lanes);
                if (weight != nullptr) factor = factor * load(weight + i, lanes);
                sum = fma(load(x[t] + i, lanes), factor, sum);
            });
            dots[t] = sum.sum();
        }
    });
}

template <class T>
void forward(const RowNormForward& args) {
    const std::int64_t width = args.x.size(1);
    const Rows<T> x(args.x);
    const Rows<T> y(args.y);
    const T* weight = args.weight.as<T>();
    parallel_ranges(args.x.size(0), 2 * width, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
            const Vec8 rstd = rstd_of(args, t);
            for_vectors(0, width, [&](std::int64_t i, auto lanes) {
                store(y[t] + i, load(x[t] + i, lanes) * rstd * load(weight + i, lanes), lanes);
            });
        }
    });
}

template <class T>
void backward(const RowNormBackward& args, Scratch& scratch) {
    const std::int64_t tokens = args.dy.size(0);
    const std::int64_t width = args.dy.size(1);
    const Rows<T> x(args.forward.x);
    const Rows<T> dy(args.dy);
    const Rows<T> dx(args.dx);
    const T* weight = args.forward.weight.as<T>();
    const auto* dots = args.dots.as<float>();
    const std::int64_t blocks = row_blocks(tokens);
    auto* parts = scratch.take<float>(blocks * width);
    parallel_items(blocks, tokens / blocks * width * 4, [&](std::int64_t block) {
        float* dweight = parts + block * width;
        std::fill(dweight, dweight + width, 0.0f);
        for (std::int64_t t = tokens * block / blocks; t < tokens * (block + 1) / blocks; ++t) {
            const float rstd = rstd_of(args.forward, t);
            const Vec8 of_row = rstd;
            const Vec8 projection = rstd * dots[t] / static_cast<float>(args.forward.width);
            for_vectors(0, width, [&](std::int64_t i, auto lanes) {
                const Vec8 normalised = load(x[t] + i, lanes) * of_row;
                const Vec8 g = load(dy[t] + i, lanes);
                store(dweight + i, fma(g, normalised, load(dweight + i, lanes)), lanes);
                const Vec8 own = g * load(weight + i, lanes);
                store(dx[t] + i, of_row * (own - normalised * projection), lanes);
            });
        }
    });
    if (!args.dweight.empty()) add_parts(parts, blocks, width, width, args.dweight.as<float>());
}

}  // namespace

void run(const RowDots& args) {
    with_compute_type(args.x.dtype(), [&](auto type) { dots<decltype(type)>(args); });
}

void run(const RowNormForward& args) {
    with_compute_type(args.x.dtype(), [&](auto type) { forward<decltype(type)>(args); });
}

void run(const RowNormBackward& args, Scratch& scratch) {
    with_compute_type(args.dy.dtype(), [&](auto type) { backward<decltype(type)>(args, scratch); });
}

std::int64_t row_norm_scratch_bytes(std::int64_t tokens, std::int64_t width) {
    return Scratch::bytes_of<float>(row_blocks(tokens) * width);
}

}  // namespace gptrain::cpu
