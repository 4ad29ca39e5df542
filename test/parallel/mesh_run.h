// A few steps of a model on a mesh, and their results.
#pragma once

#include "comm/mpi_session.h"
#include "mesh_cases.h"
#include "reference.h"

namespace gptrain::test {

// Each test executable defines these three, and those that ranks.h lists, in one of its sources.
/// The mesh of all ranks over the tested backend.
Mesh make_mesh(const RunPlan& plan, Backend& backend, CommListener& listener);
/// True if the latest mesh takes the host memory that the plan has for messages.
bool holds_planned_messages();
/// The meshes that this executable compares with one rank.
std::vector<MeshCase> tested_cases(std::int64_t ranks);

/// Runs on all ranks of the session; rank 0 gets the weights of the whole model. Checks that every
/// element of every tensor has exactly one owner. `change` changes the plan, on all ranks alike.
StepResults run_on_mesh(const MpiSession& session, const RunSpec& spec, int steps,
                        const PlanChange& change = {});

}  // namespace gptrain::test
