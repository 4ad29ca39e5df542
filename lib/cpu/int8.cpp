#include "cpu/int8.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/at.h"
#include "cpu/parallel.h"
#include "cpu/row_kernels.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// NaN if an element is not finite.
template <class T>
float amax_of(const T* x, std::int64_t count) {
    float amax = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        const float magnitude = std::fabs(to_float(x[i]));
        if (!std::isfinite(magnitude)) return std::numeric_limits<float>::quiet_NaN();
        amax = std::max(amax, magnitude);
    }
    return amax;
}

/// Converts a block, and returns its scale.
template <class T>
float convert_block(const T* x, std::int64_t count, std::int8_t* values) {
    const float amax = amax_of(x, count);
    if (!(amax >= int8_smallest_amax)) {
        std::fill_n(values, count, std::int8_t{0});
        return std::isnan(amax) ? amax : 0;
    }
    const float factor = 127 / amax;
    for (std::int64_t i = 0; i < count; ++i)
        values[i] = static_cast<std::int8_t>(std::nearbyint(to_float(x[i]) * factor));
    return amax / 127;
}

/// Calls f(block, first column, number of columns) for each block of a row.
void for_blocks(std::int64_t columns, const auto& f) {
    for (std::int64_t block = 0; block < Int8Matrix::blocks_of(columns); ++block) {
        const std::int64_t begin = block * Int8Matrix::block;
        f(block, begin, std::min(Int8Matrix::block, columns - begin));
    }
}

/// Rows row_of(0) to row_of(count - 1) of `out`.
void widen_rows(const Int8Matrix& x, const Tensor& out_rows, std::int64_t count,
                const auto& row_of) {
    const std::int64_t columns = out_rows.size(1);
    const Rows<std::int8_t> values(x.values);
    const Rows<float> scales(x.scales);
    with_compute_type(out_rows.dtype(), [&](auto type) {
        const Rows<decltype(type)> out(out_rows);
        const auto& kernels = row_kernels<decltype(type)>();
        parallel_ranges(count, columns, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                const std::int64_t row = row_of(i);
                for_blocks(columns, [&](std::int64_t block, std::int64_t at, std::int64_t width) {
                    kernels.from_int8(values[row] + at, scales[row][block], out[row] + at, width);
                });
            }
        });
    });
}

}  // namespace

void run(const ToInt8& args) {
    const std::int64_t columns = args.x.size(1);
    const Rows<std::int8_t> values(args.out.values);
    const Rows<float> scales(args.out.scales);
    with_compute_type(args.x.dtype(), [&](auto type) {
        const Rows<decltype(type)> x(args.x);
        parallel_ranges(args.x.size(0), 4 * columns, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                for_blocks(columns, [&](std::int64_t block, std::int64_t at, std::int64_t count) {
                    scales[row][block] = convert_block(x[row] + at, count, values[row] + at);
                });
            }
        });
    });
}

void run(const FromInt8& args) {
    widen_rows(args.x, args.out, args.out.size(0), [](std::int64_t i) { return i; });
}

void run(const GroupedFromInt8& args) {
    const auto* offsets = args.offsets.as<std::int32_t>();
    const std::int64_t experts = args.out.size(1);
    const std::int64_t outputs = args.out.size(2);
    std::vector<std::int64_t> begins;  // of the matrices of experts with rows
    for (std::int64_t i = 0; i < args.out.size(0) * experts; ++i)
        if (offsets[i % experts] < offsets[i % experts + 1]) begins.push_back(i * outputs);
    widen_rows(args.x.as_one(), Int8Matrix::rows_of(args.out), std::ssize(begins) * outputs,
               [&](std::int64_t i) { return at(begins, i / outputs) + i % outputs; });
}

}  // namespace gptrain::cpu
