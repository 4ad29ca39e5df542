// The contradictions between the keys of model.experts and the rest of a spec.
#pragma once

#include "spec/run_plan.h"

namespace gptrain {

/// Error (usage) if model.experts contradicts itself, or if another key cannot be used with it.
void check_experts(const RunSpec& spec);

/// Error (usage) unless parallel.expert divides the experts, and its ranks are whole neighbours on
/// the axes of `mesh`.
void check_expert_axis(const RunSpec& spec, const MeshShape& mesh);

}  // namespace gptrain
