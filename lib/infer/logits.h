// The logits of a text's tokens, in fp32, to compare models.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "infer/inference.h"

namespace gptrain {

/// On one rank. The references must outlive it.
class LogitComputer {
public:
    /// `plan`: of the model; its precision and sizes of batches are not used. `ids`: a text, at
    /// most as long as the model's positions.
    LogitComputer(Backend& backend, const Mesh& mesh, RunPlan plan, std::vector<std::int32_t> ids);

    /// The memory that `compute` allocates.
    MemoryPlan memory() const;

    /// The logits [tokens, V] of what follows each token, in a model whose weights `load` loads.
    std::vector<float> compute(const std::function<void(InferenceModel&)>& load) const;

private:
    Backend& backend_;
    const Mesh& mesh_;
    RunPlan plan_;
    std::vector<std::int32_t> ids_;
};

}  // namespace gptrain
