// Estimates the memory and work of a run without running it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "hardware/profile.h"
#include "spec/make_plan.h"

namespace gptrain {

struct DryRunOptions {
    std::filesystem::path timeline;                      ///< empty: none
    std::optional<std::int64_t> device_memory;           ///< bytes
    std::string device_memory_name = "--device-memory";  ///< where it is from, for messages
    double memory_headroom = 0;                          ///< share of it to leave free
    std::optional<HardwareProfile> hardware;             ///< estimates the time of a step on it
    bool check = false;                                  ///< an Error (usage) if it does not fit
    std::filesystem::path json;                          ///< of that estimate; empty: none
};

/// Runs one step of every rank on the meter (once per group of identical ranks, see measure_mesh)
/// and the pipeline's schedule in the simulator. Prints the plan, the memory of each use on the
/// rank that needs the most, the work of a step, the most bytes that any rank sends on each axis,
/// and for a pipeline the needs of each stage. The plan is for `target`. One line reports whether
/// the run fits and what it leaves, and if not, what would fit: on devices of `device_memory` bytes
/// if given, otherwise on this machine's CPU with the memory available now. If `timeline` is set,
/// writes one pipeline step as SVG (.svg) or as a trace (.json). With `hardware`, it prints the
/// time of a step and where it goes, and the timeline is for that hardware.
void print_dry_run(const RunSpec& spec, const RunPlan& plan, const PlanTarget& target,
                   const DryRunOptions& options);

}  // namespace gptrain
