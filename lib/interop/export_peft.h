// Writes an adapter as Hugging Face's PEFT reads it.
#pragma once

#include <filesystem>
#include <string>

#include "interop/foreign_tensors.h"

namespace gptrain {

struct PeftExport {
    const ModelShape& model;   ///< with its adapter
    std::string adapted_path;  ///< a folder of transformers with the adapted model; empty: unknown
    DType dtype = DType::f32;  ///< fp32, bf16 or fp16
};

/// Writes the adapter's files into `folder` (peft_files.h). Of LoRA, where PEFT sees one layer in
/// several of ours (c_attn of GPT-2), their matrices become one A and a B with a block for each, of
/// a rank and an alpha as many times as large. Of virtual tokens, their embeddings (peft_prompt.h).
/// Error (usage): no class of transformers has the model, or a value is too large for fp16.
void write_peft_adapter(const std::filesystem::path& folder, const PeftExport& request,
                        const WeightReader& weights);

}  // namespace gptrain
