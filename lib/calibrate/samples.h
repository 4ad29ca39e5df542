// Repeated measurements of one thing.
#pragma once

#include <chrono>
#include <vector>

#include "base/clock.h"

namespace gptrain {

/// Seconds that `work` takes.
double seconds_of(const auto& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return seconds_since(start);
}

/// A summary of the repeats.
struct SampleSummary {
    double seconds = 0;  ///< lower quartile: other programs only ever make a repeat slower
    double spread = 0;   ///< between the quartiles, relative to `seconds`
};

/// At least one repeat.
SampleSummary summary(std::vector<double> repeats);

}  // namespace gptrain
