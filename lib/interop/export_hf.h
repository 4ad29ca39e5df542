// Writes a model in the form that Hugging Face's transformers reads.
#pragma once

#include <cstdint>
#include <filesystem>

#include "interop/foreign_tensors.h"

namespace gptrain {

struct HfExport {
    const ModelShape& model;
    SpecialIds ids;
    DType dtype = DType::f32;  ///< fp32, bf16 or fp16
    std::int64_t max_shard_bytes = 0;
};

/// Writes config.json and the weights into `folder`, durably, tensor by tensor. Weights in one
/// file of at most max_shard_bytes (more only for a single tensor), or in several with an index.
/// Error (usage): no class of transformers has the model, or a weight is too large for fp16.
void write_hf_model(const std::filesystem::path& folder, const HfExport& request,
                    const WeightReader& weights);

}  // namespace gptrain
