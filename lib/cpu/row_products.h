// Dot products of a few rows with many others, each of which is read once.
#pragma once

#include "cpu/lanes.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {

/// Products of R rows with O others, by lanes of vector type V.
template <class V, int R, int O>
struct RowProducts {
    V of[R][O];

    RowProducts() {
        each([](V& sum, int, int) { sum = V(0.0f); });
    }

    /// Calls f(sum, r, o) for each.
    void each(const auto& f) {
        unrolled<R>([&](int r) { unrolled<O>([&](int o) { f(of[r][o], r, o); }); });
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
            for (std::int64_t i = at; i < at + line; i += V::size)
                add_vectors(rows, others, i, FullLanes<V>());
        }
        for_vectors_of<V>(at, end,
                          [&](std::int64_t i, auto lanes) { add_vectors(rows, others, i, lanes); });
    }

private:
    template <class T, class W, class Lanes>
    void add_vectors(const Rows<T>& rows, const Rows<W>& others, std::int64_t i, Lanes lanes) {
        V loaded[O];
        unrolled<O>([&](int o) { loaded[o] = load(others[o] + i, lanes); });
        unrolled<R>([&](int r) {
            const V values = load(rows[r] + i, lanes);
            unrolled<O>([&](int o) { of[r][o] = fma(values, loaded[o], of[r][o]); });
        });
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
