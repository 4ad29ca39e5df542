// The files of an adapter as Hugging Face's PEFT reads them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "tensor/shape.h"

namespace gptrain {

/// File names in the folder.
constexpr std::string_view peft_config_name = "adapter_config.json";
constexpr std::string_view peft_weights_name = "adapter_model.safetensors";

/// A matrix of an adapter.
struct PeftTensor {
    std::string name;
    Shape shape;
    std::vector<float> values;
};

/// Writes both files into `folder`, durably, and compares every element with what it reads back.
/// `dtype`: fp32, bf16 or fp16. Error (usage) if a value is too large for fp16.
void write_peft_files(const std::filesystem::path& folder, const std::vector<PeftTensor>& tensors,
                      DType dtype, const Json& config);

}  // namespace gptrain
