// Measures the machine that the ranks run on, for a hardware profile.
#pragma once

#include <filesystem>
#include <span>

#include "calibrate/measured_devices.h"
#include "calibrate/probes.h"
#include "comm/mpi_session.h"
#include "hardware/profile.h"

namespace gptrain {

struct CalibrateOptions {
    std::filesystem::path folder;  ///< on the disk that is measured
    MeasuredDevices devices;
    std::span<const Probe> probes;
};

/// Measures ops, messages and the disk for some minutes, and returns the profile of these nodes.
/// All ranks call it together. The result is rank 0's.
HardwareProfile calibrate(const MpiSession& session, const CalibrateOptions& options);

}  // namespace gptrain
