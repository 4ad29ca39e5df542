// The one place that knows which backends were built.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "spec/run_spec.h"

namespace gptrain {

/// The backend that a run computes on.
struct Device {
    std::unique_ptr<Backend> backend;
    bool cuda = false;
};

/// Error (usage) where the machine or the program lacks the device.
Device open_device(DeviceChoice choice);

/// What `open_device` would open, and the scratch memory of its ops, without the device.
bool would_use_cuda(DeviceChoice choice);
std::int64_t device_scratch_bytes(DeviceChoice choice, const OpLimits& limits);

}  // namespace gptrain
