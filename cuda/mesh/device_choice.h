// Assigns a GPU to each rank.
#pragma once

#include <span>
#include <string>

#include "comm/mpi_session.h"

namespace gptrain::cuda {

/// How messages travel if some ranks, not necessarily this one, share a device.
enum class Sharing {
    none,  ///< each rank has its own
    mpi,   ///< through host memory
    nccl,  ///< over NCCL, as between devices
    peer,  ///< by copies, as between devices
};

/// The value of GPTRAIN_SHARE_GPU, for tests: "1" is mpi, "nccl" nccl, "peer" peer; none if it is
/// not set. Throws Error (usage) for any other value.
Sharing sharing_from_environment();

/// Why the NCCL of this machine cannot connect ranks that share a device; empty from 2.30 on.
std::string fault_of_shared_nccl();

struct ChosenDevice {
    int index = 0;  ///< among those visible to the process; current for this thread
    Sharing sharing = Sharing::none;
};

/// The device that choose_device will choose for this rank, which this does not open.
int device_of_rank(const MpiSession& session);

/// Assigns the visible devices of a machine to its ranks in turn: local rank modulo devices. All
/// ranks call it together. Throws Error (usage) on all ranks if a rank has no usable device, if two
/// ranks share a device and sharing_from_environment does not allow it, or if they are to share it
/// over an NCCL that cannot do so. Otherwise such an NCCL is told to (set_shared_nccl_environment).
ChosenDevice choose_device(const MpiSession& session);

/// True if any two ranks have the same device. Throws Error (usage) that names these ranks unless
/// `allowed`.
bool devices_are_shared(std::span<const std::string> uuids, bool allowed);

}  // namespace gptrain::cuda
