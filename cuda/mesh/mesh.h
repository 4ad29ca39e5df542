// Builds the mesh of a run on GPUs.
#pragma once

#include "backend/backend.h"
#include "comm/comm_listener.h"
#include "comm/mesh.h"
#include "comm/mpi_session.h"

namespace gptrain::cuda {

/// Sets environment variables that NCCL reads when the first communicator is made, unless they are
/// already set: NCCL_LAUNCH_ORDER_IMPLICIT=1 (concurrent communicators start in issue order, so
/// ranks cannot block each other), and, for deterministic sums, NCCL_ALGO=Ring (sums by NVLink
/// switches differ between calls) with NCCL_NVLS_ENABLE=0; otherwise NCCL chooses the algorithm.
void set_nccl_environment(bool deterministic);

/// For ranks that share a device, in the same way: NCCL_MULTI_RANK_GPU_ENABLE=1, NCCL_NVLS_ENABLE=0
/// (multicast needs one rank a device) and NCCL_MAX_CTAS=2 (the kernels of all ranks wait for each
/// other, so all must fit on the device at once).
void set_shared_nccl_environment();

/// Makes all communicators of this rank, and uses each of NCCL's once; all ranks call it together.
/// Messages of `peer` are copies between GPUs; NCCL, which is opened only then, serves the other
/// axes. Rank 0 prints which is which. `backend` is a CUDA backend; it and the session outlive the
/// mesh. Throws Error (usage) if the world's size differs from the mesh's, if ranks have different
/// versions of NCCL, or if messages could hold all multiprocessors. `listener`, if given, is
/// notified of all operations as the host issues them, of the device's progress, and of each
/// connection that is made, as operation 0; it outlives the mesh. While the host waits in
/// Backend::wait, lost ranks are detected, as long as the mesh exists.
Mesh gpu_mesh(const MpiSession& session, const MeshShape& shape, const MeshConnections& connections,
              Backend& backend, CommListener* listener = nullptr, const PeerAxes& peer = {});

}  // namespace gptrain::cuda
