// The backend of NVIDIA GPUs from compute capability 8.0 on: products by cuBLASLt, everything else
// by hand.
#pragma once

#include <functional>
#include <memory>

#include "backend/backend.h"
#include "cuda/environment.h"

namespace gptrain::cuda {

class Stream;

/// Makes the device (an index among those that the process sees) current for this thread. No
/// usable device (runtime/probe.h), a missing library: Error (usage).
std::unique_ptr<Backend> make_backend(int device = 0, const Options& options = {});

/// The stream on which a CUDA backend computes; null for another backend.
const Stream* compute_stream(const Backend& backend);
/// From now on a CUDA backend calls `ask` again and again while its `wait` waits for the device;
/// what it throws ends the wait.
void while_waiting(Backend& backend, std::function<void()> ask);

}  // namespace gptrain::cuda
