// The contradictions between the keys of model.experts and the rest of a spec.
#pragma once

#include "spec/run_spec.h"

namespace gptrain {

/// Error (usage) if model.experts contradicts itself, or if another key cannot be used with it.
void check_experts(const RunSpec& spec);

}  // namespace gptrain
