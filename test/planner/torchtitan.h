// The differences between torchtitan's FSDP2 of December 2024 and this program.
#pragma once

#include "engine/step_trace.h"
#include "hardware/profile.h"
#include "spec/run_plan.h"

namespace gptrain::test {

/// The H100s of torchtitan's benchmarks, which are not NVIDIA's usual ones, and PyTorch's kernels
/// and messages.
HardwareProfile torchtitan_hardware();

/// A step of `plan`, which divides weights, with the kernels of torchtitan's Llama in place of this
/// program's, and with its selective recomputation ("op"). With `compiled` each block is compiled
/// (torch.compile); the loss and the optimizer are not.
StepTrace as_torchtitan(StepTrace step, const RunPlan& plan, bool compiled);

}  // namespace gptrain::test
