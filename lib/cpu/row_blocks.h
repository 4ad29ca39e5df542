// Sums over rows whose result does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "cpu/parallel.h"
#include "cpu/vector8.h"

namespace gptrain::cpu {

/// Number of blocks of rows whose parts of a sum are computed separately. It depends on the number
/// of rows only.
inline std::int64_t row_blocks(std::int64_t rows) {
    return std::min<std::int64_t>(64, div_ceil(rows, 16));
}

/// total[h] += the sum over blocks of parts[block][h], for h < `columns`; `stride` is from block to
/// block.
inline void add_parts(const float* parts, std::int64_t blocks, std::int64_t stride,
                      std::int64_t columns, float* total) {
    parallel_ranges(columns, blocks, 16, [&](std::int64_t begin, std::int64_t end) {
        for_vectors(begin, end, [&](std::int64_t h, auto lanes) {
            Vec8 sum = 0.0f;
            for (std::int64_t block = 0; block < blocks; ++block)
                sum = sum + load(parts + block * stride + h, lanes);
            store(total + h, load(total + h, lanes) + sum, lanes);
        });
    });
}

}  // namespace gptrain::cpu
