// Gradients of which several ranks beside dp and cp have a part each (GradSum): summed once a step,
// after the buckets, in the ranges that this rank updates.
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
    /// `shard` as in GradBuckets. All ranks of tp, and both ends of the pipeline, have equally long
    /// ranges.
    GradSums(Backend& backend, const Mesh& mesh, const Parameters& parameters, bool shard);

    /// Takes memory for the smaller ones in the workspace: they are sent as one message.
    void run(Arena& workspace) const;

private:
    void sum(const std::vector<Tensor>& grads, Communicator& sharers, Arena& workspace) const;

    Backend& backend_;
    const Mesh& mesh_;
    std::vector<Tensor> over_tp_;
    std::vector<Tensor> over_kv_;
    std::vector<Tensor> over_ends_;
};

}  // namespace gptrain
