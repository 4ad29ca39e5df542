// Sums the gradients whose parts lie on several ranks besides those of a bucket:
//
//   main_grad = sum over the parameter's axis (Parameter::also_sums)
//
// Once a step, after the buckets, for the ranges that this rank updates.
#pragma once

#include <map>
#include <vector>

#include "backend/backend.h"
#include "backend/memory.h"
#include "comm/mesh.h"
#include "model/ownership.h"
#include "model/parameters.h"

namespace gptrain {

class GradSums {
public:
    /// All ranks of tp, and both ends of the pipeline, have ranges of equal length.
    GradSums(Backend& backend, const Mesh& mesh, const Parameters& parameters);

    /// Sums the gradients of each axis as one message, copied through the workspace if there are
    /// several.
    void sum_all(Arena& workspace) const;

private:
    void sum(const std::vector<Tensor>& grads, Communicator& sharers, Arena& workspace) const;

    Backend& backend_;
    const Mesh& mesh_;
    std::map<Axis, std::vector<Tensor>> grads_;  ///< by axis; all ranks sum in this order
};

}  // namespace gptrain
