// The memory that the CUDA backend needs for a run: plain numbers, also in builds without CUDA.
#pragma once

#include "backend/backend.h"

namespace gptrain::cuda {

/// Known without a device; the same on every device.
BackendMemory backend_memory();

}  // namespace gptrain::cuda
