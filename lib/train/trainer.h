// Starts a run: checks its inputs, takes the lock, measures memory, finds the checkpoint, opens the
// data, then hands over to Run.
#pragma once

#include "spec/run_plan.h"
#include "train/resume.h"
#include "train/run_devices.h"

namespace gptrain {

/// Trains until the last step or until any rank is asked to stop. Returns done or requeue; throws
/// Errors for faults. All ranks call it; rank 0 prints and writes for all.
ExitCode train(const RunSpec& spec, const RunPlan& plan, const ResumeChoice& resume,
               const RunDevices& devices);

}  // namespace gptrain
