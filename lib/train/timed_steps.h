// Times a few steps of a plan without data, checkpoints or logs.
#pragma once

#include <functional>
#include <vector>

#include "spec/run_plan.h"
#include "spec/run_spec.h"
#include "train/run_devices.h"

namespace gptrain {

/// Seconds of each of `count` steps on the slowest rank, after two that are not timed. The spec's
/// injected faults apply. All ranks call it together and get the same result. Once `stop` is true
/// on any rank, returns the times measured so far. A plan that lacks memory is a CommonError
/// (usage).
std::vector<double> time_steps(const RunSpec& spec, const RunPlan& plan, const RunDevices& devices,
                               std::int64_t count, const std::function<bool()>& stop);

}  // namespace gptrain
