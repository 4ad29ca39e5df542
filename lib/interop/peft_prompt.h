// Virtual tokens as Hugging Face's PEFT reads them: of p-tuning, too, the file has only what the
// encoder computes, which is all that a trained prompt needs.
#pragma once

#include <string>

#include "interop/foreign_tensors.h"
#include "interop/peft_files.h"

namespace gptrain {

/// "prompt_embeddings" [P, H]: the embeddings of the virtual tokens of `model`.
PeftTensor peft_prompt(const ModelShape& model, const WeightReader& weights);

/// adapter_config.json: PROMPT_TUNING or P_TUNING. `adapted_path`: the Hugging Face model folder
/// of the adapted model; empty: unknown.
Json peft_prompt_config(const ModelShape& model, const std::string& adapted_path);

}  // namespace gptrain
