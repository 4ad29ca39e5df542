// The weights of an export: from the checkpoint, and read back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "checkpoint/element_reader.h"
#include "infer/inference.h"

namespace gptrain {

/// Reads the weights of a checkpoint, a few blocks at a time.
class CheckpointWeights {
public:
    explicit CheckpointWeights(const std::filesystem::path& folder);

    /// A WeightReader. Error (bad_input) if the checkpoint lacks the tensor.
    void read(const Shard& part, std::span<float> to);

private:
    std::filesystem::path folder_;
    Manifest manifest_;
    ElementReader reader_;
};

/// How far the logits of the exported model are from the checkpoint's, in fp32.
struct LogitError {
    std::int64_t tokens = 0;
    float difference = 0;  ///< the largest
    float largest = 0;     ///< logit
};

/// Compares the logits of a fixed text. In fp32 they must be equal, else Error (bug). Nothing if
/// the model does not fit in memory.
std::optional<LogitError> compare_logits(const InferenceRun& run, const WeightReader& exported,
                                         DType dtype);

}  // namespace gptrain
