// Products of a few rows with the rows of a weight, for vector type V. As in tile_kernels_impl.h,
// nothing here may be shared between the sources that include it.
#pragma once

#include <algorithm>
#include <xmmintrin.h>

#include "cpu/few_rows_operands.h"
#include "cpu/row_products.h"

namespace gptrain::cpu {
namespace {

// Twelve accumulators plus their operands fill sixteen vector registers. Every loaded element
// serves several of them.
constexpr int rows_at_once = 3;

/// Prefetches groups of O rows of a weight, which have no gaps between them, in the order of
/// memory, not in the order in which their lines are read: they arrive 10 % (fp32) to 30 % (bf16)
/// faster. They go into L1 if two groups fit there with room to spare, otherwise into L2.
template <int O, class T>
class PrefetchInOrder {
public:
    explicit PrefetchInOrder(const Rows<T>& rows) {
        const std::int64_t group_bytes = O * rows.stride * static_cast<std::int64_t>(sizeof(T));
        into_l1_ = group_bytes <= 12288;
        next_ = rows[group_bytes < 6144 ? 2 * O : O];
    }

    void operator()(std::int64_t at) const {
        const T* next = next_ + at * O;
        for (int o = 0; o < O; ++o, next += 64 / sizeof(T)) {
            if (into_l1_) {
                _mm_prefetch(next, _MM_HINT_T0);
            } else {
                _mm_prefetch(next, _MM_HINT_T1);
            }
        }
    }

private:
    const T* next_;
    bool into_l1_;
};

/// The products of R rows with the O rows of the weight from `output` on.
template <class V, int R, int O, class T>
RowProducts<V, R, O> products(const Rows<T>& x, const Rows<T>& weight, std::int64_t output,
                              std::int64_t length) {
    RowProducts<V, R, O> sums;
    const Rows<T> others = rows_from(weight, output);
    sums.add(x, others, 0, length, PrefetchInOrder<O, T>(others));
    return sums;
}

template <class V, int R, int O, class T>
RowProducts<V, R, O> products(const Rows<T>& x, const Int8Rows& weight, std::int64_t output,
                              std::int64_t length) {
    RowProducts<V, R, O> sums;
    const Rows<std::int8_t> others = rows_from(weight.values, output);
    const PrefetchInOrder<O, std::int8_t> prefetch(others);
    for (std::int64_t begin = 0, block = 0; begin < length; ++block) {
        const std::int64_t end = std::min(begin + weight.block, length);
        RowProducts<V, R, O> part;
        part.add(x, others, begin, end, prefetch);
        V scales[O];
        unrolled<O>([&](int o) { scales[o] = V(weight.scales[output + o][block]); });
        sums.each([&](V& sum, int r, int o) { sum = fma(scales[o], part.of[r][o], sum); });
        begin = end;
    }
    return sums;
}

/// The two values of every byte of codes.
struct Nf4Pairs {
    float of[256][2];
};
constexpr Nf4Pairs nf4_pairs = [] {
    Nf4Pairs pairs{};
    for (unsigned byte = 0; byte < 256; ++byte) {
        pairs.of[byte][0] = nf4_values[byte >> 4];
        pairs.of[byte][1] = nf4_values[byte & 15];
    }
    return pairs;
}();

/// The values of a block's codes.
inline void widen_codes(const std::uint8_t* codes, float* values) {
    for (std::int64_t i = 0; i < nf4_block / 2; ++i) {
        values[2 * i] = nf4_pairs.of[codes[i]][0];
        values[2 * i + 1] = nf4_pairs.of[codes[i]][1];
    }
}

template <class V, int R, int O, class T>
RowProducts<V, R, O> products(const Rows<T>& x, const Nf4Rows& weight, std::int64_t output,
                              std::int64_t length) {
    RowProducts<V, R, O> sums;
    alignas(64) float values[O][nf4_block];
    Rows<float> others;
    others.data = values[0];
    others.stride = nf4_block;
    Rows<T> part_of_x = x;
    const std::int64_t blocks = length / nf4_block;
    for (std::int64_t block = 0; block < blocks; ++block, part_of_x.data += nf4_block) {
        V scales[O];
        unrolled<O>([&](int o) {
            const std::int64_t at = (output + o) * blocks + block;
            widen_codes(weight.codes + at * (nf4_block / 2), values[o]);
            scales[o] = V(weight.scales(at));
        });
        RowProducts<V, R, O> part;
        part.add(part_of_x, others, 0, nf4_block, [](std::int64_t) {});
        sums.each([&](V& sum, int r, int o) { sum = fma(scales[o], part.of[r][o], sum); });
    }
    return sums;
}

template <class V, int R, int O, class T>
void multiply_block(const FewRows<T>& rows, const auto& weight, std::int64_t row,
                    std::int64_t output) {
    const RowProducts<V, R, O> sums =
        products<V, R, O>(rows_from(rows.x, row), weight, output, rows.length);
    for (int r = 0; r < R; ++r) {
        T* y = rows.y[row + r] + output;
        for (int o = 0; o < O; ++o) {
            float sum = sums.of[r][o].sum();
            if (rows.bias != nullptr) sum += to_float(rows.bias[output + o]);
            if (rows.accumulate) sum += to_float(y[o]);
            y[o] = from_float<T>(sum);
        }
    }
}

/// After the first rows the weight comes from the cache.
template <class V, int O, class T>
void multiply_outputs(const FewRows<T>& rows, const auto& weight, std::int64_t output) {
    std::int64_t row = 0;
    for (; row + rows_at_once <= rows.count; row += rows_at_once)
        multiply_block<V, rows_at_once, O>(rows, weight, row, output);
    if (rows.count - row == 2) multiply_block<V, 2, O>(rows, weight, row, output);
    if (rows.count - row == 1) multiply_block<V, 1, O>(rows, weight, row, output);
}

template <class V, class T, class Weight>
void multiply_few(const FewRows<T>& rows, const Weight& weight, std::int64_t begin,
                  std::int64_t end) {
    std::int64_t output = begin;
    for (; output + outputs_at_once <= end; output += outputs_at_once)
        multiply_outputs<V, outputs_at_once>(rows, weight, output);
    for (; output < end; ++output)
        multiply_outputs<V, 1>(rows, weight, output);
}

}  // namespace
}  // namespace gptrain::cpu
