// The logits of a text's tokens, in fp32, to compare models.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infer/inference.h"

namespace gptrain {

// On one rank. `plan`: of the model; its precision and sizes of batches are not used.

/// The memory that compute_logits allocates for a text of so many tokens.
MemoryPlan logits_memory(const Backend& backend, const Mesh& mesh, const RunPlan& plan,
                         std::int64_t tokens);

/// The logits [tokens, V] of what follows each token of a text, which is at most as long as the
/// model's positions, in a model whose weights `load` loads.
std::vector<float> compute_logits(Backend& backend, const Mesh& mesh, const RunPlan& plan,
                                  std::span<const std::int32_t> ids,
                                  const std::function<void(InferenceModel&)>& load);

}  // namespace gptrain
