// Writes a model as llama.cpp reads it: one GGUF file.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "interop/gguf_file.h"
#include "interop/gguf_vocabulary.h"
#include "interop/stored_tensors.h"

namespace gptrain {

struct GgufExport {
    const ModelShape& model;
    const GgufTokenizer& tokenizer;
    std::string name;          ///< of the model
    DType dtype = DType::f32;  ///< of the matrices: fp32, bf16 or fp16; all else is fp32
};

/// Writes the file durably, tensor by tensor. Error (usage): llama.cpp lacks a feature of the model
/// or its tokenizer, or a weight is too large for fp16.
void write_gguf_model(const std::filesystem::path& path, const GgufExport& request,
                      const WeightReader& weights);

/// The model in a file of write_gguf_model.
class GgufModel {
public:
    GgufModel(const std::filesystem::path& path, const ModelShape& model);

    /// to = the elements of a shard of one of our tensors.
    void read(const Shard& part, std::span<float> to) const;

    /// check_gguf_settings, and check_stored of all tensors.
    void check(const WeightReader& weights) const;

private:
    GgufFile file_;
    ModelShape model_;
    std::vector<Shard> tensors_;
    StoredTensors places_;
};

}  // namespace gptrain
