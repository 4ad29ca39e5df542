// Sums the gradients whose parts lie on several ranks besides dp x cp (GradSum):
//
//   main_grad = sum over tp, the sharers of a k/v head, or the pipeline's ends
//
// Once a step, after the buckets, for the ranges that this rank updates.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/mesh.h"
#include "model/ownership.h"
#include "model/parameters.h"

namespace gptrain {

class GradSums {
public:
    /// `shard` as in GradReduction. All ranks of tp, and both ends of the pipeline, have ranges of
    /// equal length.
    GradSums(Backend& backend, const Mesh& mesh, const Parameters& parameters, bool shard);

    /// Sums the gradients of each kind as one message, copied through the workspace if there are
    /// several.
    void sum_all(Arena& workspace) const;

private:
    void sum(const std::vector<Tensor>& grads, Communicator& sharers, Arena& workspace) const;

    Backend& backend_;
    const Mesh& mesh_;
    std::vector<Tensor> over_tp_;
    std::vector<Tensor> over_kv_;
    std::vector<Tensor> over_embedding_ends_;
};

}  // namespace gptrain
