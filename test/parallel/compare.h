// Compares meshes with one rank, in a few steps of each.
#pragma once

#include <functional>

#include "mesh_cases.h"
#include "mesh_run.h"

namespace gptrain::test {

constexpr int compared_steps = 5;

/// For looking into a failure: only the cases whose names contain GPTRAIN_MESH_CASES.
bool wanted(const MeshCase& mesh_case);

PlanChange change_of(const MeshCase& mesh_case);

/// `spec` on the case's mesh.
RunSpec spec_of(RunSpec spec, const MeshCase& mesh_case);

/// Checks that these are the reference's, but for roundings.
void check_equal(const StepResults& results, const Reference& reference);

/// 2-norm of the difference over all tensors.
double distance_of_all(const NamedValues& a, const NamedValues& b);

/// Compares the meshes that cover everything, of those for which `takes` is true, with one rank,
/// after `change` of each model's spec. On more than four ranks only
/// those of three axes, where there are any.
void compare_covering(
    const std::function<void(RunSpec&)>& change,
    const std::function<bool(const MeshCase&)>& takes = [](const MeshCase&) { return true; });

}  // namespace gptrain::test
