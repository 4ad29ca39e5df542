// How the benchmarks measure time.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace gptrain::bench {

inline double seconds_of(const auto& work) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    work();
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The shortest of five runs, so that other load does not count.
inline double least_seconds_of(const auto& work) {
    double least = seconds_of(work);
    for (int turn = 1; turn < 5; ++turn)
        least = std::min(least, seconds_of(work));
    return least;
}

inline double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}  // namespace gptrain::bench
