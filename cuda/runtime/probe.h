// Checks whether this machine and this program can compute on a GPU, without using the GPU.
#pragma once

#include <string>

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
};

/// `device` is an index among those visible to the process.
DeviceProbe probe_device(int device);

/// The newest CUDA version that the driver supports, 13000 for 13.0; 0 without a driver.
int driver_version();

/// "CUDA 13.0": the runtime in the program; empty without a CUDA backend.
std::string runtime_version();

}  // namespace gptrain::cuda
