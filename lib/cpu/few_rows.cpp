#include "cpu/few_rows.h"

#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

// Twelve sums and what they are made of fill the sixteen vector registers. Every weight and every
// element of x that is loaded serves several of them.
constexpr int rows_at_once = 3;
constexpr int outputs_at_once = 4;
constexpr std::int64_t cache_line = 64;  // bytes
// Rows are too short for the processor to notice that it will read the next ones, so they are
// requested, so many groups of `outputs_at_once` rows ahead. They go to the second cache, because
// the first can wait for too few lines at a time.
constexpr int groups_ahead = 3;

/// Sums of the products of R rows of x with O rows of the weight, by lanes.
template <int R, int O>
struct Sums {
    Vec8 of[R][O];

    Sums() {
        for (auto& row : of)
            for (Vec8& sum : row)
                sum = Vec8(0.0f);
    }
    /// += of elements [begin, end) of the rows.
    template <class T, class W>
    void add(const Rows<T>& x, const Rows<W>& weight, std::int64_t begin, std::int64_t end) {
        constexpr std::int64_t line = cache_line / sizeof(W);
        std::int64_t at = begin;
        for (; at + line <= end; at += line) {
            for (int o = 0; o < O; ++o)
                _mm_prefetch(weight[groups_ahead * O + o] + at, _MM_HINT_T1);
            for (std::int64_t i = at; i < at + line; i += Vec8::size)
                add_vectors(x, weight, i, Full());
        }
        for_vectors(at, end, [&](std::int64_t i, auto lanes) { add_vectors(x, weight, i, lanes); });
    }
    template <class T, class W, class Lanes>
    void add_vectors(const Rows<T>& x, const Rows<W>& weight, std::int64_t i, Lanes lanes) {
        Vec8 weights[O];
        for (int o = 0; o < O; ++o)
            weights[o] = load(weight[o] + i, lanes);
        for (int r = 0; r < R; ++r) {
            const Vec8 values = load(x[r] + i, lanes);
            for (int o = 0; o < O; ++o)
                of[r][o] = fma(values, weights[o], of[r][o]);
        }
    }
};

template <class T>
Rows<T> rows_from(const Rows<T>& rows, std::int64_t first) {
    Rows<T> result = rows;
    result.data = rows[first];
    return result;
}

/// A weight in the compute dtype.
template <class T>
struct PlainWeight {
    Rows<T> rows;

    /// The products of rows of x with O rows of the weight, the first of which is `output`.
    template <int R, int O>
    Sums<R, O> multiply(const Rows<T>& x, std::int64_t output, std::int64_t length) const {
        Sums<R, O> sums;
        sums.add(x, rows_from(rows, output), 0, length);
        return sums;
    }
};

struct Int8Weight {
    Rows<std::int8_t> rows;
    Rows<float> scales;

    explicit Int8Weight(const Int8Matrix& weight) : rows(weight.values), scales(weight.scales) {}

    template <int R, int O, class T>
    Sums<R, O> multiply(const Rows<T>& x, std::int64_t output, std::int64_t length) const {
        Sums<R, O> sums;
        const Rows<std::int8_t> weight = rows_from(rows, output);
        for (std::int64_t begin = 0, block = 0; begin < length; ++block) {
            const std::int64_t end = std::min(begin + Int8Matrix::block, length);
            Sums<R, O> part;
            part.add(x, weight, begin, end);
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
    parallel_ranges(y.size(1), x.elements(), outputs_at_once,
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
