// Rotations in the config.json of transformers.
#pragma once

#include "interop/hf_family.h"

namespace gptrain {

/// Reads theta, the stretching and the rotated share of a model whose sizes and windows are set.
void read_hf_rope(const HfMembers& config, const HfFamily& family, ModelSpec& model);

/// Adds them to a config.json.
void add_hf_rope(const ModelShape& model, const HfFamily& family, Json& config);

}  // namespace gptrain
