// The contradictions between the keys of model.experts and the rest of a spec.
#pragma once

#include "spec/run_plan.h"

namespace gptrain {

/// Error (usage) if model.experts contradicts itself, or if another key cannot be used with it.
void check_experts(const RunSpec& spec);

/// True if so many ranks that divide experts are whole ranks of neighbours, `near` of which come
/// before others.
constexpr bool are_neighbours(std::int64_t expert, std::int64_t near) {
    return near % expert == 0 || expert % near == 0;
}

/// Error (usage) unless parallel.expert divides the experts, and its ranks are whole neighbours on
/// the axes of `mesh`.
void check_expert_axis(const RunSpec& spec, const MeshShape& mesh);

}  // namespace gptrain
