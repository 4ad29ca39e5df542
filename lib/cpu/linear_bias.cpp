#include "cpu/linear_bias.h"

#include <algorithm>

#include "cpu/parallel.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

template <class Y, class T>
void add_bias(const AddBias& args) {
    const std::int64_t hidden = args.y.size(1);
    const Rows<Y> rows(args.y);
    const T* added = args.bias.as<T>();
    parallel_ranges(args.y.size(0), hidden, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            for_vectors(0, hidden, [&](std::int64_t h, auto lanes) {
                store(rows[row] + h, load(rows[row] + h, lanes) + load(added + h, lanes), lanes);
            });
        }
    });
}

}  // namespace

void run(const BiasGrad& args) {
    const std::int64_t rows = args.dy.size(0);
    auto* sums = args.dbias.as<float>();
    with_compute_type(args.dy.dtype(), [&](auto type) {
        const Rows<decltype(type)> from(args.dy);
        parallel_ranges(args.dy.size(1), rows, 128, [&](std::int64_t begin, std::int64_t end) {
            // A few rows at a time: the memory is read in long pieces.
            for (std::int64_t first = 0; first < rows; first += 16) {
                const std::int64_t last = std::min(first + 16, rows);
                for_vectors(begin, end, [&](std::int64_t o, auto lanes) {
                    Vec8 sum = load(sums + o, lanes);
                    for (std::int64_t row = first; row < last; ++row)
                        sum = sum + load(from[row] + o, lanes);
                    store(sums + o, sum, lanes);
                });
            }
        });
    });
}

void run(const AddBias& args) {
    with_compute_type(args.bias.dtype(), [&](auto type) {
        using T = decltype(type);
        args.y.dtype() == DType::f32 ? add_bias<float, T>(args) : add_bias<T, T>(args);
    });
}

}  // namespace gptrain::cpu
