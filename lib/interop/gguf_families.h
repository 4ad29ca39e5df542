// Properties of llama.cpp's architectures that its code fixes, because the file has no field for
// them.
#pragma once

#include "interop/hf_class.h"
#include "spec/run_plan.h"

namespace gptrain {

/// True if the class's architecture has windows in some layers, as its code says in which.
bool has_gguf_windows(HfClass hf_class);

/// True if its layers with windows are those of the model.
bool keeps_gguf_windows(const ModelShape& model, HfClass hf_class);

/// Fails if the class's architecture computes something else than the model: Error (usage) that
/// names the key.
void check_gguf_family(const ModelShape& model, HfClass hf_class);

}  // namespace gptrain
