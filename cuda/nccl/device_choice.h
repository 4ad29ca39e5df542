// Which GPU a rank computes on.
#pragma once

#include <span>
#include <string>

#include "comm/mpi_session.h"

namespace gptrain::cuda {

struct ChosenDevice {
    int index = 0;        ///< among those that the process sees; current for this thread
    bool shared = false;  ///< some ranks, these or others, have one device in common
};

/// The ranks of a machine take the devices that they see in turn: local rank modulo devices. All
/// ranks call it. A rank without a device that can be used, and two ranks on one device, are an
/// Error (usage) on all ranks; the latter is allowed where the environment has GPTRAIN_SHARE_GPU=1,
/// for tests.
ChosenDevice choose_device(const MpiSession& session);

/// Whether two of the ranks' devices are the same one; an Error (usage) that names these ranks
/// unless they may be.
bool devices_are_shared(std::span<const std::string> uuids, bool may_be);

}  // namespace gptrain::cuda
