// What the CUDA backend needs of a run's memory: numbers, in builds without CUDA as well.
#pragma once

#include "backend/backend.h"

namespace gptrain::cuda {

/// The same on every device; known without one.
BackendNeeds backend_needs();

}  // namespace gptrain::cuda
