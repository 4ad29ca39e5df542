// Helpers that the parts of bench_scale share: child processes for its work, and the rows that they
// print.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "spec/run_plan.h"

namespace gptrain::bench {

/// Runs `work` in a child process, so that what others left in memory does not slow it down.
void in_child(const std::function<void()>& work);

/// Bytes that this process has allocated and not freed.
std::int64_t held_bytes();

/// One row for one number of ranks. Zero seconds or bytes are left out.
void print_row(std::int64_t ranks, std::string_view what, double seconds, std::int64_t bytes);

/// The rows of saving a checkpoint of the plan in `folder` and of resuming from it.
void bench_checkpoint(const std::filesystem::path& folder, const RunPlan& plan);

}  // namespace gptrain::bench
