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
/// environment's GPTRAIN_CUDA_GRAPHS=1 has a GPU replay recorded graphs.
Device open_device(DeviceChoice choice, const std::filesystem::path& cache = {});

/// What `open_device` would open, and the scratch memory of its ops, without the device.
bool would_use_cuda(DeviceChoice choice);
std::int64_t device_scratch_bytes(DeviceChoice choice, const OpLimits& limits);

}  // namespace gptrain
