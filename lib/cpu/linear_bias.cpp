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

/// sums += columns [begin, end) of the rows [first, last), one row after the other.
template <class T>
void add_rows(const Rows<T>& from, std::int64_t first, std::int64_t last, std::int64_t begin,
              std::int64_t end, float* sums) {
    // A few rows at a time: the memory is read in long pieces.
    for (; first < last; first += 16) {
        const std::int64_t next = std::min(first + 16, last);
        for_vectors(begin, end, [&](std::int64_t o, auto lanes) {
            Vec8 sum = load(sums + o, lanes);
            for (std::int64_t row = first; row < next; ++row)
                sum = sum + load(from[row] + o, lanes);
            store(sums + o, sum, lanes);
        });
    }
}

}  // namespace

void run(const BiasGrad& args) {
    const std::int64_t rows = args.dy.size(0);
    auto* sums = args.dbias.as<float>();
    with_compute_type(args.dy.dtype(), [&](auto type) {
        const Rows<decltype(type)> from(args.dy);
        parallel_ranges(args.dy.size(1), rows, 128, [&](std::int64_t begin, std::int64_t end) {
            add_rows(from, 0, rows, begin, end, sums);
        });
    });
}

void run(const GroupedBiasGrad& args) {
    const std::int64_t experts = args.dbias.size(1);
    const std::int64_t outputs = args.dbias.size(2);
    const auto* offsets = args.offsets.as<std::int32_t>();
    with_compute_type(args.dy.dtype(), [&](auto type) {
        for (std::int64_t part = 0; part < args.dbias.size(0); ++part) {
            const Rows<decltype(type)> from(args.dy.slice(1, part * outputs, outputs));
            auto* sums = args.dbias.at(part).template as<float>();
            parallel_ranges(
                outputs, offsets[experts], 128, [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t e = 0; e < experts; ++e)
                        add_rows(from, offsets[e], offsets[e + 1], begin, end, sums + e * outputs);
                });
        }
    });
}

void run(const AddBias& args) {
    with_compute_type(args.bias.dtype(), [&](auto type) {
        using T = decltype(type);
        args.y.dtype() == DType::f32 ? add_bias<float, T>(args) : add_bias<T, T>(args);
    });
}

}  // namespace gptrain::cpu
