// Dot products of a few rows with many others, each of which is read once.
#pragma once

#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {

// Twelve accumulators plus their operands fill the sixteen vector registers. Every element that is
// loaded serves several of them.
constexpr int rows_at_once = 3;
constexpr int others_at_once = 4;

/// For keys: short rows that may lie apart, as in packed q, k and v. Prefetches groups of O rows
/// three groups before they are read, into L2, because L1 can wait for too few lines at a time.
template <int O, class T>
struct PrefetchApart {
    Rows<T> rows;

    /// Called for every line of the rows that are read.
    void operator()(std::int64_t at) const {
        for (int o = 0; o < O; ++o)
            _mm_prefetch(rows[3 * O + o] + at, _MM_HINT_T1);
    }
};

/// For rows without gaps between them, as those of weights. Prefetches groups of O rows in the
/// order of memory, not in the order in which their lines are read: they arrive 10 % (fp32) to 30 %
/// (bf16) faster. They go into L1 if two groups fit there with room to spare, otherwise into L2.
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

/// Products of R rows with O others, by lanes.
template <int R, int O>
struct RowProducts {
    Vec8 of[R][O];

    RowProducts() {
        for (auto& row : of)
            for (Vec8& sum : row)
                sum = Vec8(0.0f);
    }

    /// += the sums over elements [begin, end) of the rows; both start with their first row. Calls
    /// prefetch(i) before the line of the others that starts at element i.
    template <class T, class W>
    void add(const Rows<T>& rows, const Rows<W>& others, std::int64_t begin, std::int64_t end,
             const auto& prefetch) {
        constexpr std::int64_t line = 64 / sizeof(W);
        std::int64_t at = begin;
        for (; at + line <= end; at += line) {
            prefetch(at);
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
