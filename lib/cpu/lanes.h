// Whole vectors and the first lanes of vectors: code written over both handles rows of any length.
// V is Vec8 or Vec16. Also loops that keep vectors in registers.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

namespace gptrain::cpu {

/// All lanes.
template <class V>
struct FullLanes {};
/// The first `count` lanes, fewer than all; the others read as 0 and are not written.
template <class V>
struct PartLanes {
    std::int64_t count;
};

/// Calls f(i, lanes) for the vectors at begin, begin + V::size, ... in [begin, end).
template <class V, class F>
void for_vectors_of(std::int64_t begin, std::int64_t end, const F& f) {
    std::int64_t i = begin;
    for (; i + V::size <= end; i += V::size)
        f(i, FullLanes<V>());
    if (i < end) f(i, PartLanes<V>{end - i});
}

/// Calls f(0) to f(count - 1) without a loop. Compilers keep an array that a loop indexes in
/// memory: they unroll the loop too late to use registers.
template <int count, class F>
void unrolled(const F& f) {
    [&]<int... i>(std::integer_sequence<int, i...>) {
        (f(i), ...);
    }
    (std::make_integer_sequence<int, count>());
}

// For elements that the instruction set cannot load or store by lanes: by way of a whole vector.
template <class T, class V>
V load(const T* p, PartLanes<V> part) {
    T lanes[V::size] = {};
    std::memcpy(lanes, p, static_cast<std::size_t>(part.count) * sizeof(T));
    return load(lanes, FullLanes<V>());
}
template <class T, class V>
void store(T* p, V x, PartLanes<V> part) {
    T lanes[V::size];
    store(lanes, x, FullLanes<V>());
    std::memcpy(p, lanes, static_cast<std::size_t>(part.count) * sizeof(T));
}

}  // namespace gptrain::cpu
