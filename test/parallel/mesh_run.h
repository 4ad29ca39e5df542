// A few steps of a model on a mesh, and what came of them.
#pragma once

#include "comm/mpi_session.h"
#include "mesh_cases.h"
#include "reference.h"

namespace gptrain::test {

// These two are another test executable's other source, beside what ranks.h says.
/// The mesh of all ranks over the tested backend.
Mesh make_mesh(const RunPlan& plan, Backend& backend, CommListener& listener);
/// The meshes that this executable compares with one rank.
std::vector<MeshCase> tested_cases(std::int64_t ranks);

/// On all ranks of the session; rank 0 has the weights of the whole model. All results are checked
/// to be whole: every element of every tensor has one owner.
StepResults run_on_mesh(const MpiSession& session, const RunSpec& spec, int steps);

}  // namespace gptrain::test
