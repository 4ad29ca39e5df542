#include "cpu/few_rows.h"

#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

constexpr std::int64_t most_rows = 8;
// Twelve sums and what they are made of fill the sixteen vector registers. Every weight and every
// element of x that is loaded serves several of them.
constexpr int rows_at_once = 3;
constexpr int outputs_at_once = 4;

/// The operands, with the first of the rows and outputs that are computed together.
template <class T>
struct Operands {
    const T* x;
    std::int64_t x_stride;
    const T* weight;
    std::int64_t weight_stride;
    std::int64_t length;
};

template <int R, int O>
struct Sums {
    float of[R][O];
};

/// The products of R rows of x with O rows of the weight.
template <int R, int O, class T>
Sums<R, O> multiply(const Operands<T>& at) {
    Vec8 sums[R][O];
    for (auto& row : sums)
        for (Vec8& sum : row)
            sum = Vec8(0.0f);
    for_vectors(0, at.length, [&](std::int64_t i, auto lanes) {
        Vec8 weights[O];
        for (int o = 0; o < O; ++o)
            weights[o] = load(at.weight + o * at.weight_stride + i, lanes);
        for (int r = 0; r < R; ++r) {
            const Vec8 x = load(at.x + r * at.x_stride + i, lanes);
            for (int o = 0; o < O; ++o)
                sums[r][o] = fma(x, weights[o], sums[r][o]);
        }
    });
    Sums<R, O> result;
    for (int r = 0; r < R; ++r)
        for (int o = 0; o < O; ++o)
            result.of[r][o] = sums[r][o].sum();
    return result;
}

template <class T>
class FewRows {
public:
    explicit FewRows(const LinearForward& args)
        : x_(args.x),
          weight_(args.weight),
          y_(args.y),
          bias_(pointer_or_null<T>(args.bias)),
          rows_(args.x.size(0)),
          length_(args.x.size(1)),
          accumulate_(args.accumulate) {}

    void run(std::int64_t begin, std::int64_t end) const {
        std::int64_t output = begin;
        for (; output + outputs_at_once <= end; output += outputs_at_once)
            run_outputs<outputs_at_once>(output);
        for (; output < end; ++output)
            run_outputs<1>(output);
    }

private:
    /// After the first rows the weights come from the cache.
    template <int O>
    void run_outputs(std::int64_t output) const {
        std::int64_t row = 0;
        for (; row + rows_at_once <= rows_; row += rows_at_once)
            run_block<rows_at_once, O>(row, output);
        if (rows_ - row == 2) run_block<2, O>(row, output);
        if (rows_ - row == 1) run_block<1, O>(row, output);
    }

    template <int R, int O>
    void run_block(std::int64_t row, std::int64_t output) const {
        const Sums<R, O> sums =
            multiply<R, O, T>({x_[row], x_.stride, weight_[output], weight_.stride, length_});
        for (int r = 0; r < R; ++r) {
            T* y = y_[row + r] + output;
            for (int o = 0; o < O; ++o) {
                float sum = sums.of[r][o];
                if (bias_ != nullptr) sum += to_float(bias_[output + o]);
                if (accumulate_) sum += to_float(y[o]);
                y[o] = from_float<T>(sum);
            }
        }
    }

    Rows<T> x_;
    Rows<T> weight_;
    Rows<T> y_;
    const T* bias_;
    std::int64_t rows_;
    std::int64_t length_;
    bool accumulate_;
};

}  // namespace

bool has_few_rows(const LinearForward& args) {
    return !args.x.empty() && args.x.size(0) <= most_rows;
}

void multiply_few_rows(const LinearForward& args) {
    with_compute_type(args.x.dtype(), [&](auto type) {
        const FewRows<decltype(type)> rows(args);
        const std::int64_t cost = args.x.size(0) * args.x.size(1);
        parallel_ranges(args.y.size(1), cost, outputs_at_once,
                        [&](std::int64_t begin, std::int64_t end) { rows.run(begin, end); });
    });
}

}  // namespace gptrain::cpu
