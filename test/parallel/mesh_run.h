// A few steps of a model on a mesh, and what came of them.
#pragma once

#include "comm/mpi_session.h"
#include "reference.h"

namespace gptrain::test {

/// On all ranks of the session; rank 0 has the weights of the whole model. All results are checked
/// to be whole: every element of every tensor has one owner.
StepResults run_on_mesh(const MpiSession& session, const RunSpec& spec, int steps);

}  // namespace gptrain::test
