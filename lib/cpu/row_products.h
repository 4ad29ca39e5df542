// Dot products of a few rows with many others, each of which is read once.
#pragma once

#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {

// Twelve accumulators plus their operands fill the sixteen vector registers. Every element that is
// loaded serves several of them.
constexpr int rows_at_once = 3;
constexpr int others_at_once = 4;

/// Products of R rows with O others, by lanes.
template <int R, int O>
struct RowProducts {
    Vec8 of[R][O];

    RowProducts() {
        for (auto& row : of)
            for (Vec8& sum : row)
                sum = Vec8(0.0f);
    }

    /// += the sums over elements [begin, end) of the rows; both start with their first row.
    template <class T, class W>
    void add(const Rows<T>& rows, const Rows<W>& others, std::int64_t begin, std::int64_t end) {
        constexpr std::int64_t line = 64 / sizeof(W);
        // The other rows are too short for the hardware prefetcher, so they are prefetched this
        // many groups of O ahead, into L2, because L1 can wait for too few lines at a time.
        constexpr int groups_ahead = 3;
        std::int64_t at = begin;
        for (; at + line <= end; at += line) {
            for (int o = 0; o < O; ++o)
                _mm_prefetch(others[groups_ahead * O + o] + at, _MM_HINT_T1);
            for (std::int64_t i = at; i < at + line; i += Vec8::size)
                add_vectors(rows, others, i, Full());
        }
        for_vectors(at, end,
                    [&](std::int64_t i, auto lanes) { add_vectors(rows, others, i, lanes); });
    }

private:
    template <class T, class W, class Lanes>
    void add_vectors(const Rows<T>& rows, const Rows<W>& others, std::int64_t i, Lanes lanes) {
        Vec8 loaded[O];
        for (int o = 0; o < O; ++o)
            loaded[o] = load(others[o] + i, lanes);
        for (int r = 0; r < R; ++r) {
            const Vec8 values = load(rows[r] + i, lanes);
            for (int o = 0; o < O; ++o)
                of[r][o] = fma(values, loaded[o], of[r][o]);
        }
    }
};

/// The rows from `first` on.
template <class T>
Rows<T> rows_from(const Rows<T>& rows, std::int64_t first) {
    Rows<T> result = rows;
    result.data = rows[first];
    return result;
}

}  // namespace gptrain::cpu
