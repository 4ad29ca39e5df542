// The weights of a stored model as a run with precision.frozen computes with them: those that int8
// or NF4 keeps in fewer bits as they are dequantised, before they are rounded to the compute dtype.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/layout.h"
#include "stored/source_weights.h"

namespace gptrain {

class FrozenWeightReader {
public:
    /// `format`: of the matrices of linear layers. Both must outlive it.
    FrozenWeightReader(const ModelSource& source, const ModelShape& model, QuantisedFormat format);

    /// A WeightReader (SourceWeights::read). On one rank: tp that cuts the blocks of int8 leaves
    /// slightly different values.
    void read(const Shard& part, std::span<float> to);

private:
    /// Reads a matrix, that of an expert or a tensor's only one, and converts it there and back.
    void take(const Shard& of, std::int64_t expert);
    /// True if the source has the matrix as the run keeps it.
    bool stored_so(const Shard& matrix) const;

    const ModelSource& source_;
    QuantisedFormat format_;
    SourceWeights weights_;
    std::set<std::string> quantised_;  ///< names
    std::string name_;                 ///< whose matrix of `expert_` is here:
    std::int64_t expert_ = 0;
    std::vector<float> values_;
};

}  // namespace gptrain
