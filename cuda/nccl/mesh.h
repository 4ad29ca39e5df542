// The mesh of a run on GPUs.
#pragma once

#include "backend/backend.h"
#include "comm/comm_listener.h"
#include "comm/mesh.h"
#include "comm/mpi_session.h"

namespace gptrain::cuda {

/// Environment variables that NCCL reads when its first communicator is made, where they are not
/// set: NCCL_LAUNCH_ORDER_IMPLICIT=1 (communicators that run at the same time start in the order
/// of issue, so that ranks cannot block each other), and for deterministic sums NCCL_ALGO=Ring
/// (what NVLink's switches add up differs from call to call), else what NCCL holds for the fastest.
void set_nccl_environment(bool deterministic);

/// All communicators of this rank over NCCL, each used once; all ranks make it together. `backend`
/// is a CUDA backend and outlives the mesh, like the session. NCCL is opened only where there is
/// more than one rank; a world of another size than the mesh is an Error (usage). `listener`, if
/// any, is told of all operations, as the host issues them, and outlives the mesh. While the host
/// waits for the backend (Backend::wait, not after the mesh is gone) lost ranks are noticed.
Mesh nccl_mesh(const MpiSession& session, const MeshShape& shape, const MeshLinks& links,
               Backend& backend, CommListener* listener = nullptr);

}  // namespace gptrain::cuda
