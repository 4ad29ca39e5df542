// Writes an adapter in the form that Hugging Face's PEFT reads.
#pragma once

#include <filesystem>
#include <string>

#include "interop/foreign_tensors.h"

namespace gptrain {

struct PeftExport {
    const ModelShape& model;   ///< with its adapter
    HfClass hf_class;          ///< of the adapted model
    std::string adapted_path;  ///< Hugging Face model folder of the adapted model; empty: unknown
    DType dtype = DType::f32;  ///< fp32, bf16 or fp16
};

/// Writes the adapter's files into `folder` (peft_files.h). LoRA: where several of our layers are
/// one for PEFT (GPT-2's c_attn), their matrices become one A and a block-diagonal B, with rank and
/// alpha multiplied by their number. Virtual tokens: only their embeddings (peft_prompt.h). Error
/// (usage): no class of transformers has the model, or a value is too large for fp16.
void write_peft_adapter(const std::filesystem::path& folder, const PeftExport& request,
                        const WeightReader& weights);

}  // namespace gptrain
