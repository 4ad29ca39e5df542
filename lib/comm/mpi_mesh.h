// The mesh of a run that a launcher started, over MPI.
#pragma once

#include "backend/backend.h"
#include "comm/mesh.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// The world's rank that comes first among those that share this axis with the rank at `place`.
std::int64_t first_rank_on(Axis axis, const MeshPlace& place, const MeshShape& shape);

/// A world with another number of ranks than the mesh is an Error (usage).
void check_mesh_fits(const MpiSession& session, const MeshShape& shape);

/// Makes the communicators of one rank: over MPI, or for one rank where an axis has no more. All
/// ranks make those of an axis together. `options.name` is set to the axis. The session and the
/// backend outlive what it makes.
CommunicatorFactory mpi_communicators(const MpiSession& session, const MeshShape& shape,
                                      Backend& backend, const MpiOptions& options = {});

/// All communicators of this rank, each used once. Tensors of a backend "cuda" are staged.
Mesh mpi_mesh(const MpiSession& session, const MeshShape& shape, Backend& backend);

}  // namespace gptrain
