// The experts of a layer as the tensors of Hugging Face's transformers: three matrices for each
// expert, or, as version 5 has them in memory, two tensors for all of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "interop/foreign_tensor.h"
#include "interop/hf_class.h"
#include "spec/run_plan.h"

namespace gptrain {

/// The tensor by which a folder is known to hold a layer's experts fused.
std::string fused_experts_name(std::int64_t layer);

/// The tensors of a layer in place of those of an mlp: router, experts, shared expert.
std::vector<ForeignTensor> hf_expert_tensors(const ModelShape& model, HfClass hf_class,
                                             std::int64_t layer, bool fused);

/// `names`: of all tensors of a folder, in ascending order. Error (bad_input) that names `source`
/// if the model lacks experts there or has more, or has experts of a layer in both forms.
void check_hf_experts(const ModelShape& model, HfClass hf_class,
                      const std::vector<std::string_view>& names, const std::string& source);

}  // namespace gptrain
