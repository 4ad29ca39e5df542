// Compares meshes with one rank, in a few steps of each.
#pragma once

#include <functional>

#include "mesh_cases.h"
#include "mesh_run.h"

namespace gptrain::test {

constexpr int compared_steps = 5;

/// For looking into a failure: only the cases whose names contain GPTRAIN_MESH_CASES. If it is
/// empty, all cases run, also on eight ranks.
bool wanted(const MeshCase& mesh_case);

/// The cases of these that cover everything. On more than four ranks only those of three axes,
/// where there are any.
std::vector<MeshCase> covering_here(std::vector<MeshCase> cases);

PlanChange change_of(const MeshCase& mesh_case);

/// The reference for these steps, on rank 0. All ranks call it together: the first two share the
/// disturbed runs.
Reference shared_reference(const RunSpec& spec);

/// `spec` on the case's mesh.
RunSpec spec_of(RunSpec spec, const MeshCase& mesh_case);

/// Checks that these are the reference's, but for roundings.
void check_equal(const StepResults& results, const Reference& reference);

/// 2-norm of the difference over all tensors.
double distance_of_all(const NamedValues& a, const NamedValues& b);

/// True for a mesh of a model without experts.
bool is_dense(const MeshCase& mesh_case);

/// Compares the meshes that cover everything here, of those for which `takes` is true, with one
/// rank, after `change` of each model's spec and `changed`, if any, of the cases.
void compare_covering(const std::function<void(RunSpec&)>& change,
                      const std::function<bool(const MeshCase&)>& takes = is_dense,
                      std::vector<MeshCase> (*changed)(std::vector<MeshCase> cases) = nullptr);

}  // namespace gptrain::test
