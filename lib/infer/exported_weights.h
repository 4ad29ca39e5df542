// The weights of an export: from the checkpoint, and read back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/frozen_weights.h"
#include "infer/inference.h"

namespace gptrain {

/// The weights of a model, with its adapter merged into them: W + scale B A. Of a matrix that the
/// run keeps in int8 or NF4, W is the dequantised one, with which B and A were trained.
class MergedWeights {
public:
    /// `plan`: of the model, with the adapter, if it has one. Both must outlive it.
    MergedWeights(const ModelSource& source, const RunPlan& plan);

    /// A WeightReader (SourceWeights::read).
    void read(const Shard& part, std::span<float> to);

private:
    /// Reads A and B of a linear layer, by its name without ".weight".
    void read_adapter(const std::string& layer);

    FrozenWeightReader weights_;
    const ModelShape& model_;
    std::map<std::string, Shard> adapters_;  ///< all A and B
    std::string layer_;                      ///< whose matrices are here:
    std::vector<float> a_;                   ///< [rank, I]
    std::vector<float> b_;                   ///< [O, rank]
};

/// How far the logits of the exported model are from the checkpoint's, in fp32.
struct LogitError {
    std::int64_t tokens = 0;
    float difference = 0;  ///< the largest
    float largest = 0;     ///< logit
};

/// Compares the logits of a fixed text. In fp32 they must be equal, but for rounding where an
/// adapter was merged or weights are stored as differences (`rounded`), else Error (bug). Empty if
/// the model does not fit in memory.
std::optional<LogitError> compare_logits(const InferenceRun& run, const WeightReader& exported,
                                         DType dtype, bool rounded = false);

}  // namespace gptrain
