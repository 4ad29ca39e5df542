// Assigns a GPU to each rank.
#pragma once

#include <span>
#include <string>

#include "comm/mpi_session.h"

namespace gptrain::cuda {

struct ChosenDevice {
    int index = 0;        ///< among those visible to the process; current for this thread
    bool shared = false;  ///< some ranks, not necessarily this one, share a device
};

/// The device that choose_device will choose for this rank, which this does not open.
int device_of_rank(const MpiSession& session);

/// Assigns the visible devices of a machine to its ranks in turn: local rank modulo devices. All
/// ranks call it together. Throws Error (usage) on all ranks if a rank has no usable device or if
/// two ranks share a device; for tests, GPTRAIN_SHARE_GPU=1 allows the latter.
ChosenDevice choose_device(const MpiSession& session);

/// True if any two ranks have the same device. Throws Error (usage) that names these ranks unless
/// `allowed`.
bool devices_are_shared(std::span<const std::string> uuids, bool allowed);

}  // namespace gptrain::cuda
