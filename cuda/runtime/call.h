// Error checks for calls of the CUDA runtime.
#pragma once

#include <cuda_runtime.h>
#include <string_view>

#include "base/error.h"

namespace gptrain::cuda {

/// The exit code for a failed call. `usage`: memory, or code for the device, is missing, or another
/// process holds the device. `hang`: the device, its memory or its links have failed, so a restart
/// may help (docs/slurm.md). Otherwise `bug`.
constexpr ExitCode exit_code_of(cudaError_t status) {
    switch (status) {
        case cudaErrorMemoryAllocation:
        case cudaErrorNoKernelImageForDevice:
        case cudaErrorDevicesUnavailable: return ExitCode::usage;
        case cudaErrorECCUncorrectable:
        case cudaErrorNvlinkUncorrectable:
        case cudaErrorContained:
        case cudaErrorExternalDevice:
        case cudaErrorSystemNotReady:
        case cudaErrorUnknown:  // among others, a GPU that has fallen off the bus
            return ExitCode::hang;
        default: return ExitCode::bug;
    }
}

/// Throws an Error that names the call.
inline void check_cuda(cudaError_t status, std::string_view call) {
    if (status == cudaSuccess) return;
    // Clear the error, or the next launch reports it again.
    static_cast<void>(cudaGetLastError());
    const ExitCode code = exit_code_of(status);
    if (status == cudaErrorNoKernelImageForDevice) {
        fail(code, "CUDA: ", call,
             ": this program was built without code for this GPU; build it for its compute "
             "capability (GPTRAIN_CUDA_ARCHITECTURES), or use another GPU");
    }
    fail(code, "CUDA: ", call, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status),
         ")");
}

}  // namespace gptrain::cuda
