#include <cmath>

#include "cpu/attention.h"
#include "cpu/attention_tiles.h"
#include "cpu/parallel.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// Relative weights of the two sides of a row, and their joint log-sum-exp.
struct MergeWeights {
    float sum;
    float added;
    float lse;
};

MergeWeights merge_weights(float sum, float added) {
    if (sum == -infinity) return {0, 1, added};
    if (added == -infinity) return {1, 0, sum};
    const double smaller = std::exp(-std::abs(double{sum} - double{added}));
    const auto larger_weight = static_cast<float>(1 / (1 + smaller));
    const auto smaller_weight = static_cast<float>(smaller / (1 + smaller));
    const auto lse = static_cast<float>(std::max(sum, added) + std::log1p(smaller));
    return sum < added ? MergeWeights{smaller_weight, larger_weight, lse}
                       : MergeWeights{larger_weight, smaller_weight, lse};
}

template <class T>
void merge_row(float* sum, const T* added, std::int64_t dims, const MergeWeights& weights) {
    for_vectors(0, dims, [&](std::int64_t d, auto lanes) {
        const Vec8 kept = load(sum + d, lanes) * Vec8(weights.sum);
        store(sum + d, fma(load(added + d, lanes), Vec8(weights.added), kept), lanes);
    });
}

template <class T>
void copy_row(float* sum, const T* added, std::int64_t dims) {
    for_vectors(0, dims,
                [&](std::int64_t d, auto lanes) { store(sum + d, load(added + d, lanes), lanes); });
}

template <class T>
void merge(const MergeAttention& args) {
    const std::int64_t queries = args.o.size(1);
    const std::int64_t heads = args.o.size(2);
    const std::int64_t dims = args.o.size(3);
    const std::int64_t tokens = args.o.size(0) * queries;
    parallel_ranges(tokens, 4 * heads * dims, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t token = begin; token < end; ++token) {
            const std::int64_t b = token / queries;
            const std::int64_t i = token % queries;
            const T* o = args.o.as<T>() + b * args.o.stride(0) + i * args.o.stride(1);
            float* o_sum =
                args.o_sum.as<float>() + b * args.o_sum.stride(0) + i * args.o_sum.stride(1);
            const float* lse = args.lse.as<float>() + b * heads * queries + i;
            float* lse_sum = args.lse_sum.as<float>() + b * args.lse_sum.stride(0) + i;
            for (std::int64_t n = 0; n < heads; ++n) {
                float& total = lse_sum[n * args.lse_sum.stride(1)];
                const float added = lse[n * queries];
                float* row = o_sum + n * args.o_sum.stride(2);
                const T* added_row = o + n * args.o.stride(2);
                if (args.accumulate) {
                    const MergeWeights weights = merge_weights(total, added);
                    total = weights.lse;
                    merge_row(row, added_row, dims, weights);
                } else {
                    total = added;
                    copy_row(row, added_row, dims);
                }
            }
        }
    });
}

}  // namespace

void run(const MergeAttention& args) {
    GPTRAIN_CHECK(args.o.shape() == args.o_sum.shape() &&
                      args.lse.shape() == args.lse_sum.shape() && args.lse.contiguous() &&
                      args.lse.elements() * args.o.size(3) == args.o.elements(),
                  "merging o ", args.o.shape().to_text(), " and lse ", args.lse.shape().to_text(),
                  " into ", args.o_sum.shape().to_text(), " and ", args.lse_sum.shape().to_text());
    with_compute_type(args.o.dtype(), [&](auto type) { merge<decltype(type)>(args); });
}

}  // namespace gptrain::cpu
