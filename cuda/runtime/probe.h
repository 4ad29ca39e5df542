// Checks whether this machine and this program can compute on a GPU, without using the GPU.
#pragma once

#include <string>

#include "base/text.h"

namespace gptrain::cuda {

enum class DeviceState {
    usable,
    unusable,   ///< there is a driver, but something is wrong
    no_driver,  ///< this machine has no NVIDIA driver
    not_built,  ///< the program has no CUDA backend
};

struct DeviceProbe {
    DeviceState state;
    std::string reason;  ///< why the device is not usable
    int major = 0;       ///< compute capability, if it is usable
    int minor = 0;
};

/// Makes CUDA load all kernels when it starts. A kernel that is loaded at its first launch would
/// wait for messages under way, which may wait for what it computes. Also gives each stream a
/// separate queue (CUDA_DEVICE_MAX_CONNECTIONS), unless the user says otherwise. Takes effect only
/// before the first use of CUDA, which may be MPI's. Warns if it replaces the user's
/// CUDA_MODULE_LOADING=LAZY.
void set_cuda_environment();

/// Calls set_cuda_environment, for programs that have not. `device` is an index among those
/// visible to the process.
DeviceProbe probe_device(int device);

/// "13.0" from 13000, the form in which CUDA has its versions.
inline std::string cuda_version_text(int version) {
    return text(version / 1000, ".", version % 1000 / 10);
}

/// A device's name and UUID, "NVIDIA H100 80GB HBM3 12ab..."; empty if the driver does not tell.
std::string device_name(int device);
/// The driver, as it describes itself; empty without one.
std::string driver_text();

/// The newest CUDA version that the driver supports, 13000 for 13.0; 0 without a driver.
int driver_version();

}  // namespace gptrain::cuda
