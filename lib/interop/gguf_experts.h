// The experts of a model as llama.cpp has them in GGUF files: the matrices of all experts of a
// layer are one tensor.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "interop/foreign_tensor.h"
#include "interop/hf_class.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Fails if llama.cpp cannot compute the model's experts: Error (usage) that names the key.
/// `hf_class` is one with experts, here and below.
void check_gguf_experts(const ModelShape& model, HfClass hf_class);

/// The name of a setting, without the architecture, and its value.
using GgufSetting = std::pair<std::string_view, std::variant<std::int64_t, double, bool>>;

/// The settings of the experts in a file.
std::vector<GgufSetting> gguf_expert_settings(const ModelShape& model, HfClass hf_class);

/// The tensors of a layer in place of those of an mlp: router, experts, shared expert.
std::vector<ForeignTensor> gguf_expert_tensors(const ModelShape& model, HfClass hf_class,
                                               std::int64_t layer);

}  // namespace gptrain
