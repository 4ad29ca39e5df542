// The mesh of a launched run, over MPI.
#pragma once

#include "backend/backend.h"
#include "comm/comm_listener.h"
#include "comm/mesh.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// A world size other than the mesh's is an Error (usage).
void check_mesh_fits(const MpiSession& session, const MeshShape& shape);

/// Makes communicators over MPI, or one-rank communicators for groups of one. `options.name` is set
/// to the axis. The session and the backend must outlive them.
CommunicatorFactory mpi_communicators(const MpiSession& session, Backend& backend,
                                      const MpiOptions& options = {});

/// All communicators of this rank, each used once. Tensors outside host memory are staged.
/// `listener`, if any, receives all operations and must outlive the mesh.
Mesh mpi_mesh(const MpiSession& session, const MeshShape& shape, const MeshConnections& connections,
              Backend& backend, CommListener* listener = nullptr);

}  // namespace gptrain
