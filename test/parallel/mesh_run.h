// A few steps of a model on one rank or on a mesh, and what came of them.
#pragma once

#include <vector>

#include "comm/mpi_session.h"
#include "mesh_cases.h"
#include "tiny_run.h"

namespace gptrain::test {

// These two are another test executable's other source, beside what ranks.h says.
/// The mesh of all ranks over the tested backend.
Mesh make_mesh(const RunPlan& plan, Backend& backend, CommListener& listener);
/// The meshes that this executable compares with one rank.
std::vector<MeshCase> tested_cases(std::int64_t ranks);

struct StepResults {
    std::vector<double> losses;  ///< of the steps, then that of an evaluation
    std::vector<double> grad_norms;
    NamedValues weights;  ///< after the last step
    double counted = 0;   ///< squares of a gradient of ones, over the whole model
};

/// With weights that before every step are each moved by at most half the distance of two floats
/// next to each other, as `disturbance` draws it; 0: undisturbed.
StepResults run_alone(const RunSpec& spec, int steps, std::uint64_t disturbance = 0);

/// On all ranks of the session; rank 0 has the weights of the whole model. All results are checked
/// to be whole: every element of every tensor has one owner.
StepResults run_on_mesh(const MpiSession& session, const RunSpec& spec, int steps);

}  // namespace gptrain::test
