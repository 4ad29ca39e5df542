// The cores of a node, for a rank that computes while the others wait.
#pragma once

#include "comm/mpi_session.h"

namespace gptrain {

/// From now on every rank may run on all cores on which some rank of its node may, wherever the
/// launcher has bound it. Returns their number. All ranks call it before they create threads.
int use_cores_of_node(const MpiSession& session);

}  // namespace gptrain
