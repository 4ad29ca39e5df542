// Parallel loops on OpenMP threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <omp.h>

namespace gptrain::cpu {

/// Elements (of a few operations each) below which a further thread costs more than it saves.
constexpr std::int64_t thread_grain = 16384;

/// Number of threads for `count` items that cost as much as `cost` elements each.
inline int useful_threads(std::int64_t count, std::int64_t cost) {
    const std::int64_t by_work = count * cost / thread_grain + 1;
    return static_cast<int>(
        std::max<std::int64_t>(1, std::min<std::int64_t>({omp_get_max_threads(), count, by_work})));
}

/// Calls f(begin, end) for one part of [0, count) on each thread; parts start at multiples of
/// `unit`.
void parallel_ranges(std::int64_t count, std::int64_t cost, std::int64_t unit, const auto& f) {
    const std::int64_t units = (count + unit - 1) / unit;
    const int threads = useful_threads(units, cost * unit);
    if (threads == 1) {
        if (count > 0) f(std::int64_t{0}, count);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        // OpenMP may grant fewer threads than were asked for.
        const std::int64_t team = omp_get_num_threads();
        const std::int64_t thread = omp_get_thread_num();
        const std::int64_t begin = units * thread / team * unit;
        const std::int64_t end = std::min(count, units * (thread + 1) / team * unit);
        if (begin < end) f(begin, end);
    }
}

/// Calls f(i) for each i in [0, count); threads take the indices one by one, in order.
void parallel_items(std::int64_t count, std::int64_t cost, const auto& f) {
    const int threads = useful_threads(count, cost);
    if (threads == 1) {
        for (std::int64_t i = 0; i < count; ++i)
            f(i);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (std::int64_t i = 0; i < count; ++i)
        f(i);
}

}  // namespace gptrain::cpu
