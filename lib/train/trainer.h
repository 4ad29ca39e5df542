// The training loop: data, steps, evaluations, checkpoints, logs, and stopping in good order.
#pragma once

#include "spec/run_plan.h"
#include "train/resume.h"
#include "train/run_devices.h"

namespace gptrain {

/// Trains until the last step or until one of the ranks is told to stop. Returns done or requeue;
/// faults are Errors. `plan` may take its number of samples from the checkpoint. All ranks call it;
/// rank 0 speaks and writes for all.
ExitCode train(const RunSpec& spec, RunPlan plan, const ResumeChoice& resume,
               const RunDevices& devices);

}  // namespace gptrain
