// Calls of the CUDA runtime that may fail, for the files that make them.
#pragma once

#include <cuda_runtime.h>
#include <string_view>

#include "base/error.h"

namespace gptrain::cuda {

/// A failure is an Error that names the call: of code `usage` for a lack of memory or of code for
/// the device, else `bug`.
inline void check_cuda(cudaError_t status, std::string_view call) {
    if (status == cudaSuccess) return;
    // The fault must not be found again by the next launch.
    static_cast<void>(cudaGetLastError());
    if (status == cudaErrorNoKernelImageForDevice) {
        fail(ExitCode::usage, "CUDA: ", call,
             ": this program was built without code for this GPU; build it for its compute "
             "capability (GPTRAIN_CUDA_ARCHITECTURES), or take another GPU");
    }
    const ExitCode code = status == cudaErrorMemoryAllocation ? ExitCode::usage : ExitCode::bug;
    fail(code, "CUDA: ", call, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status),
         ")");
}

}  // namespace gptrain::cuda
