// Which messages of a mesh are copies between the GPUs of a node.
#pragma once

#include <optional>
#include <string>

#include "backend/backend.h"
#include "comm/mesh.h"
#include "comm/mpi_session.h"

namespace gptrain::cuda {

/// A name for shared memory that no other run on any of the machines has, the same on all ranks,
/// which call it together.
std::string run_name(const MpiSession& session);

/// Why the GPUs of some node cannot copy into each other's memory; empty if they can. Each node's
/// ranks try it on a small message. All ranks call it together and get the same text.
std::string fault_of_peers(const MpiSession& session, Backend& backend);

/// The axes that lie inside nodes, if all GPUs of each node can copy into each other's memory;
/// otherwise none, and a line says why. Of `saved`, if given, no others: a run that resumes keeps
/// the transport of each axis, and a warning names those that it cannot keep. All ranks call it
/// together.
PeerAxes choose_peer_axes(const MpiSession& session, const MeshShape& shape, Backend& backend,
                          const std::optional<PeerAxes>& saved);

}  // namespace gptrain::cuda
