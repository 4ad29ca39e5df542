// gptrain plan --calibrate: measures a profile of the ranks' machine.
#pragma once

#include <string>

#include "base/error.h"
#include "spec/run_spec.h"

namespace gptrain {

/// Measures this machine's CPU or GPUs and writes the profile to `file`. Every rank calls it.
ExitCode run_calibrate(const std::string& file, DeviceChoice device);

}  // namespace gptrain
