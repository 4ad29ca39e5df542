// Whether this machine and this program can compute on a GPU, without touching it.
#pragma once

#include <string>

namespace gptrain::cuda {

enum class DeviceState {
    usable,
    unusable,   ///< there is a driver, and something is wrong
    no_driver,  ///< this machine has no NVIDIA driver
    not_built,  ///< the program has no CUDA backend
};

struct DeviceProbe {
    DeviceState state;
    std::string why;  ///< it is not usable, in words
};

/// `device` is an index among those that the process sees.
DeviceProbe probe_device(int device);

}  // namespace gptrain::cuda
