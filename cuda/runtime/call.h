// Error checks for calls of the CUDA runtime.
#pragma once

#include <cuda_runtime.h>
#include <string_view>

#include "base/error.h"

namespace gptrain::cuda {

/// Throws an Error that names the call: `usage` if memory, or code for the device, is missing,
/// otherwise `bug`.
inline void check_cuda(cudaError_t status, std::string_view call) {
    if (status == cudaSuccess) return;
    // Clear the error, or the next launch reports it again.
    static_cast<void>(cudaGetLastError());
    if (status == cudaErrorNoKernelImageForDevice) {
        fail(ExitCode::usage, "CUDA: ", call,
             ": this program was built without code for this GPU; build it for its compute "
             "capability (GPTRAIN_CUDA_ARCHITECTURES), or use another GPU");
    }
    const ExitCode code = status == cudaErrorMemoryAllocation ? ExitCode::usage : ExitCode::bug;
    fail(code, "CUDA: ", call, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status),
         ")");
}

}  // namespace gptrain::cuda
