// gptrain plan --calibrate: the profile of the machine that the ranks run on.
#pragma once

#include <string>

#include "base/error.h"

namespace gptrain {

/// Measures this machine and writes its profile to `file`. Every rank calls it.
ExitCode run_calibrate(const std::string& file);

}  // namespace gptrain
