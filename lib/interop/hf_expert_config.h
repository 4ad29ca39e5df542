// Models with experts in config.json: Mixtral, Qwen2-MoE, Qwen3-MoE and GLM-4-MoE.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "interop/hf_classes.h"
#include "interop/hf_members.h"

namespace gptrain {

/// The key of the number of experts: the class's own, or the one that transformers 5 may write.
std::string_view hf_experts_key(const HfMembers& config, const HfFamily& family);

/// Reads the experts of a model whose sizes are set. `family`: of a class with experts.
void read_hf_experts(const HfMembers& config, const HfFamily& family, ModelSpec& model);

/// Adds the keys about the model's experts to the config.json of a class with experts.
void add_hf_experts(const ModelShape& model, const HfFamily& family, Json& config);

/// The experts as far as a config.json of the class has them, the layers as a list.
ExpertsSpec readable_hf_experts(const ModelShape& model, HfClass hf_class);

}  // namespace gptrain
