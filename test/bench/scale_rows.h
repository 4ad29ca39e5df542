// What the parts of bench_scale share: how they measure, and the rows that they print.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "cpu_step.h"
#include "spec/run_plan.h"

namespace gptrain::bench {

/// The shortest of five runs, so that other load does not count.
inline double least_seconds_of(const auto& work) {
    double least = seconds_of(work);
    for (int turn = 1; turn < 5; ++turn)
        least = std::min(least, seconds_of(work));
    return least;
}

/// Runs `work` in a process of its own, so that what others left in memory does not slow it down.
void in_child(const std::function<void()>& work);

/// Bytes that this process has allocated and not freed.
std::int64_t held_bytes();

/// One row for one number of ranks. Zero seconds or bytes are left out.
void print_row(std::int64_t ranks, std::string_view what, double seconds, std::int64_t bytes);

/// The rows of saving a checkpoint of the plan in `folder` and of resuming from it.
void bench_checkpoint(const std::filesystem::path& folder, const RunPlan& plan);

}  // namespace gptrain::bench
