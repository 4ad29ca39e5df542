// The mesh of a run that a launcher started, over MPI.
#pragma once

#include "backend/backend.h"
#include "comm/comm_listener.h"
#include "comm/mesh.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// A world with another number of ranks than the mesh is an Error (usage).
void check_mesh_fits(const MpiSession& session, const MeshShape& shape);

/// Makes communicators over MPI, and for one rank where a group has no more. `options.name` is set
/// to the axis. The session and the backend outlive what it makes.
CommunicatorFactory mpi_communicators(const MpiSession& session, Backend& backend,
                                      const MpiOptions& options = {});

/// All communicators of this rank, each used once. Tensors that do not lie in host memory are
/// staged. `listener`, if any, is told of all operations and outlives the mesh.
Mesh mpi_mesh(const MpiSession& session, const MeshShape& shape, const MeshLinks& links,
              Backend& backend, CommListener* listener = nullptr);

}  // namespace gptrain
