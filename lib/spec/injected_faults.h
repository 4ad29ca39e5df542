// What goes together in the section of a run spec with which tests make faults happen.
#pragma once

#include "spec/run_plan.h"

namespace gptrain {

/// Refuses (usage) a fault with a key that its kind has no use for or without one that it needs,
/// one for a rank that is not on the mesh, and one after the last step.
void check_injected_faults(const RunSpec& spec, const MeshShape& mesh);

/// Whether the fault is one of calls that change files.
bool is_of_files(InjectedFault::Kind kind);

}  // namespace gptrain
