// Checks of a mesh of GPUs when a run starts. Each fault that they find would later be a hang, a
// slow run or a wrong replica.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "comm/mpi_session.h"

namespace gptrain::cuda {

/// A communicator of this rank, as the checks see it.
struct HeldBlocks {
    Axis axis = Axis::tp;
    int blocks = 0;  ///< thread blocks that a message may use
};

/// Throws Error (usage) that names the axes if messages of all communicators could hold every
/// multiprocessor of the device at once: each waits for another rank, and nothing else can run.
/// `ranks_of_device`: ranks whose messages run on one device.
void check_multiprocessors(const std::vector<HeldBlocks>& held, std::int64_t ranks_of_device,
                           std::int64_t multiprocessors);

/// How many communicators a rank has.
struct CommunicatorCounts {
    std::int64_t nccl = 0;
    std::int64_t peer = 0;
};

/// A warning if the device has fewer queues than this rank's streams: two of computation and
/// copies, three for each communicator of NCCL and two for each of copies between GPUs. Work may
/// then wait behind a message of another stream. Empty if they suffice. `queues`:
/// CUDA_DEVICE_MAX_CONNECTIONS.
std::string queue_warning(const CommunicatorCounts& communicators, std::int64_t queues);

/// A warning that names two ranks of a tp group on different nodes; empty if there are none.
/// `nodes`: the name of each rank's node.
std::string placement_warning(const std::vector<std::string>& nodes, const MeshShape& shape);

/// Throws CommonError (usage) on all ranks if they have not loaded the same NCCL. All ranks call it
/// together. `version`: as ncclGetVersion gives it.
void check_same_nccl(const MpiSession& session, int version);

}  // namespace gptrain::cuda
