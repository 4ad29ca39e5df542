// The adapter of a plan, read from the spec and checked.
#pragma once

#include <optional>

#include "spec/run_plan.h"

namespace gptrain {

// The spec's adapter, if it has one of this kind. Error (usage) if the spec contradicts itself.
std::optional<Lora> lora_of(const RunSpec& spec);
std::optional<SoftPrompt> soft_prompt_of(const RunSpec& spec);

/// Error (usage) if the plan's mesh cannot compute its adapter.
void check_adapter(const RunPlan& plan);

}  // namespace gptrain
