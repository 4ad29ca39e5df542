// The backend for NVIDIA GPUs of compute capability 8.0 and newer. cuBLASLt computes GEMMs; all
// other kernels are our own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "cuda/environment.h"

namespace gptrain::cuda {

class Stream;

/// Makes the device (an index among those visible to the process) current for this thread. Throws
/// Error (usage) without a usable device (runtime/probe.h) or if a library is missing.
std::unique_ptr<Backend> make_backend(int device = 0, const Options& options = {});

/// Options::check_attention in this process. Empty on a device that does not run those kernels.
std::string attention_fault(int device);

/// The stream on which a CUDA backend computes; null for other backends.
const Stream* compute_stream(const Backend& backend);
/// The device of a CUDA backend.
int device_index(const Backend& backend);
/// From now on a CUDA backend calls `poll` repeatedly while its `wait` waits for the device; an
/// exception from `poll` ends the wait.
void set_wait_callback(Backend& backend, std::function<void()> poll);
/// From now on a CUDA backend asks `in_flight` before each op: true if messages have been issued
/// and not waited for, which depends on the order of the calls alone
/// (Options::gemm_multiprocessors).
void set_messages_in_flight(Backend& backend, std::function<bool()> in_flight);

}  // namespace gptrain::cuda
