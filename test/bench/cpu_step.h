// The step that the CPU benchmarks time: the GPT-2 124M shape on made-up tokens.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "spec/run_spec.h"

namespace gptrain::bench {

inline double seconds_of(const auto& work) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    work();
    return std::chrono::duration<double>(Clock::now() - start).count();
}

inline double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/// Microbatches of `sequences` x `seq_length`; nothing is recomputed.
RunSpec gpt2_124m(std::int64_t sequences, std::int64_t seq_length, Precision precision);

}  // namespace gptrain::bench
