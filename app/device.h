// The one place that knows which backends were built.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "backend/backend.h"
#include "spec/run_spec.h"

namespace gptrain {

/// "cpu backend" or "cpu and cuda backends".
std::string_view built_backends();

/// The backend that a run computes on.
struct Device {
    std::unique_ptr<Backend> backend;
    bool cuda = false;
};

/// Error (usage) where the machine or the program lacks the device. With `cache` the fastest ways
/// to compute are looked for and kept in that folder, where the device has a choice. The
/// environment may choose how a GPU computes (options_of_environment).
Device open_device(DeviceChoice choice, const std::filesystem::path& cache = {});

/// What `open_device` would open, and what that needs, without the device.
bool would_use_cuda(DeviceChoice choice);
BackendNeeds device_needs(DeviceChoice choice);

}  // namespace gptrain
