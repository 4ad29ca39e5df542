// Maps our tensors to those of another program's model.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "interop/foreign_tensor.h"
#include "interop/hf_config.h"
#include "tensor/shard.h"

namespace gptrain {

/// A model's tensors (docs/checkpoints.md, "Tensors"), in the order of checkpoints.
std::vector<Shard> whole_tensors(const ModelShape& model);
/// Their shapes by name.
std::map<std::string, Shape> model_shapes(const ModelShape& model);

/// In what a folder may differ from others of its class.
struct HfForm {
    /// For a layer with experts, whether they are fused (hf_experts.h); unset: nowhere.
    std::function<bool(std::int64_t)> fused = {};
    double logit_factor = 1;  ///< of its logits; our last norm has it in its weight
};

/// Every tensor of the class, in the model's order. The model must fit the class (hf_class_of).
std::vector<ForeignTensor> hf_tensors(const ModelShape& model, HfClass hf_class,
                                      const HfForm& form = {});
/// The same as llama.cpp has them in GGUF files.
std::vector<ForeignTensor> gguf_tensors(const ModelShape& model, HfClass hf_class);

/// to = the elements of a shard of one of our tensors (group "weight"), as fp32.
using WeightReader = std::function<void(const Shard& part, std::span<float> to)>;

/// The shard of a part, whole. `shapes`: those of our tensors.
Shard shard_of(const TensorPart& part, const std::map<std::string, Shape>& shapes);

/// The columns of a part in the stack, 1 for a vector. `shape`: of the whole tensor of ours.
std::int64_t columns_of(const TensorPart& part, const Shape& shape);

/// All elements of one of our tensors.
std::vector<float> read_all(const WeightReader& ours, const Shard& tensor);

/// to = all elements of a foreign tensor, in the file's order. `shapes`: those of our tensors.
void read_foreign(const ForeignTensor& tensor, const std::map<std::string, Shape>& shapes,
                  const WeightReader& ours, std::vector<float>& to);

}  // namespace gptrain
