#include "cpu/few_rows.h"

#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/row_products.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// A weight in the compute dtype.
template <class T>
struct PlainWeight {
    Rows<T> rows;

    /// The products of rows of x with O rows of the weight, the first of which is `output`.
    template <int R, int O>
    RowProducts<R, O> multiply(const Rows<T>& x, std::int64_t output, std::int64_t length) const {
        RowProducts<R, O> sums;
        const Rows<T> weight = rows_from(rows, output);
        sums.add(x, weight, 0, length, PrefetchInOrder<O, T>(weight));
        return sums;
    }
};

struct Int8Weight {
    Rows<std::int8_t> rows;
    Rows<float> scales;

    explicit Int8Weight(const Int8Matrix& weight) : rows(weight.values), scales(weight.scales) {}

    template <int R, int O, class T>
    RowProducts<R, O> multiply(const Rows<T>& x, std::int64_t output, std::int64_t length) const {
        RowProducts<R, O> sums;
        const Rows<std::int8_t> weight = rows_from(rows, output);
        const PrefetchInOrder<O, std::int8_t> prefetch(weight);
        for (std::int64_t begin = 0, block = 0; begin < length; ++block) {
            const std::int64_t end = std::min(begin + Int8Matrix::block, length);
            RowProducts<R, O> part;
            part.add(x, weight, begin, end, prefetch);
            for (int o = 0; o < O; ++o) {
                const Vec8 scale(scales[output + o][block]);
                for (int r = 0; r < R; ++r)
                    sums.of[r][o] = fma(scale, part.of[r][o], sums.of[r][o]);
            }
            begin = end;
        }
        return sums;
    }
};

template <class T, class Weight>
class FewRows {
public:
    /// `bias` may be null.
    FewRows(const Tensor& x, const Weight& weight, const T* bias, const Tensor& y, bool accumulate)
        : x_(x),
          weight_(weight),
          y_(y),
          bias_(bias),
          rows_(x.size(0)),
          length_(x.size(1)),
          accumulate_(accumulate) {}

    void run(std::int64_t begin, std::int64_t end) const {
        std::int64_t output = begin;
        for (; output + others_at_once <= end; output += others_at_once)
            run_outputs<others_at_once>(output);
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
        const RowProducts<R, O> sums =
            weight_.template multiply<R, O>(rows_from(x_, row), output, length_);
        for (int r = 0; r < R; ++r) {
            T* y = y_[row + r] + output;
            for (int o = 0; o < O; ++o) {
                float sum = sums.of[r][o].sum();
                if (bias_ != nullptr) sum += to_float(bias_[output + o]);
                if (accumulate_) sum += to_float(y[o]);
                y[o] = from_float<T>(sum);
            }
        }
    }

    Rows<T> x_;
    Weight weight_;
    Rows<T> y_;
    const T* bias_;
    std::int64_t rows_;
    std::int64_t length_;
    bool accumulate_;
};

/// Threads share the outputs.
template <class T, class Weight>
void multiply(const Tensor& x, const Weight& weight, const Tensor& bias, const Tensor& y,
              bool accumulate) {
    const FewRows<T, Weight> rows(x, weight, pointer_or_null<T>(bias), y, accumulate);
    parallel_ranges(y.size(1), x.elements(), others_at_once,
                    [&](std::int64_t begin, std::int64_t end) { rows.run(begin, end); });
}

}  // namespace

bool has_few_rows(const LinearForward& args) {
    return !args.x.empty() && args.x.size(0) <= few_rows;
}

void multiply_few_rows(const LinearForward& args) {
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        multiply<T>(args.x, PlainWeight<T>{Rows<T>(args.weight)}, args.bias, args.y,
                    args.accumulate);
    });
}

void run(const Int8LinearForward& args) {
    GPTRAIN_CHECK(args.x.size(0) <= few_rows, args.x.size(0), " rows");
    with_compute_type(args.x.dtype(), [&](auto type) {
        multiply<decltype(type)>(args.x, Int8Weight(args.weight), args.bias, args.y, false);
    });
}

}  // namespace gptrain::cpu
