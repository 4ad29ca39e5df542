// The weights of a stored model, read tensor by tensor on one rank.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/element_reader.h"
#include "stored/model_source.h"

namespace gptrain {

class SourceWeights {
public:
    /// The source must outlive it.
    explicit SourceWeights(const ModelSource& source);

    /// A WeightReader, a few blocks at a time. The tensors of an adapter and of the model that it
    /// adapts are both there. Error (bad_input) if the source lacks the tensor, or it is damaged.
    void read(const Shard& part, std::span<float> to);

private:
    const ModelSource& source_;
    std::unique_ptr<SourceWeights> adapted_;
    std::filesystem::path folder_;
    Manifest manifest_;
    std::optional<ElementReader> reader_;  ///< of a checkpoint
};

/// Identifies a model, wherever and in whatever format it is stored: the CRC-32C of the names,
/// shapes and first values of all tensors, in decimal. All ranks call it together; rank 0 reads.
std::string fingerprint(const ModelSource& source, const MpiSession& ranks);

/// Error (usage): the weights that an adapter belongs to are damaged, and `adapted` fell back to an
/// older checkpoint, which holds different weights.
[[noreturn]] void refuse_older_weights(const ModelSource& adapted);

}  // namespace gptrain
