// The differences between versions of Megatron-LM and this program.
#pragma once

#include "engine/step_trace.h"
#include "hardware/profile.h"
#include "planner/published_run.h"
#include "planner/step_time.h"

namespace gptrain::test {

/// H100s with what Megatron-Core overlaps since 2024.
HardwareProfile core_hardware();

/// The devices of a published run, with what its software overlaps.
HardwareProfile hardware_of(const PublishedRun& run);

/// The step of a published run: this program's step, with the kernels and messages that the run's
/// software has in place of this program's.
StepTime published_step(const PublishedRun& run, const HardwareProfile& hardware);

}  // namespace gptrain::test
