// Measures the machine that the ranks run on, for a hardware profile.
#pragma once

#include <filesystem>
#include <string>

#include "calibrate/measure_ops.h"

namespace gptrain {

struct CalibrateOptions {
    std::filesystem::path file;  ///< the profile; disk speed is measured in its folder
    MakeBackend make;
    std::span<const Probe> probes = standard_probes();
    int threads = 1;      ///< of each rank, so that all ranks together use all cores
    int max_threads = 1;  ///< that a rank may use if it has the node for itself
};

/// Measures ops, messages and the disk for one or two minutes, and returns the profile of this node
/// (kind cpu): its device is one core. All ranks call it together, on one node; several nodes are
/// an Error (usage). The result is rank 0's.
HardwareProfile calibrate(const MpiSession& session, const CalibrateOptions& options);

}  // namespace gptrain
