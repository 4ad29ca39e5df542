// Checks of the faults that a run looks for, and of those that tests inject.
#pragma once

#include "spec/run_plan.h"

namespace gptrain {

/// Error (usage) if two runs of a microbatch may differ without a fault.
void check_replays(const RunSpec& spec);

/// Error (usage) for a fault with a key that its kind does not use, or without one that it needs,
/// for a rank outside the mesh, and for a step after the last one.
void check_injected_faults(const RunSpec& spec, const MeshShape& mesh);

/// True if the spec has a fault of this kind.
bool has_fault(const RunSpec& spec, InjectedFault::Kind kind);

}  // namespace gptrain
