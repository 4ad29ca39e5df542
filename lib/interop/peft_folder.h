// A LoRA adapter as Hugging Face's PEFT saves it: adapter_config.json and
// adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "interop/foreign_tensors.h"
#include "interop/hf_config.h"
#include "interop/peft_config.h"
#include "interop/safetensors.h"
#include "interop/stored_tensors.h"
#include "spec/run_spec.h"

namespace gptrain {

/// An opened adapter, whose matrices are those of one rank and scale for the same linear layers of
/// every block. Where a layer of the file is several of ours (GPT-2's c_attn), each has the file's
/// A and its own rows of B. Where the config gives such a layer a multiple of the general rank, as
/// gptrain writes it (export_peft.h), each of ours has its own part of A and columns of B.
class PeftFolder {
public:
    /// `base`: the adapted model, of class `hf_class`. Error (bad_input) that names file and
    /// tensor: those of read_peft_config, a missing tensor, one of another shape or dtype, one of a
    /// module that the base does not have or that is not adapted here, blocks that are adapted
    /// differently, and ranks or scales that differ.
    PeftFolder(const std::filesystem::path& folder, const ModelShape& base, HfClass hf_class);

    const std::filesystem::path& path() const { return folder_; }
    const PeftConfig& config() const { return config_; }
    /// The section `adapter` of a run that has this adapter.
    const AdapterSpec& adapter() const { return adapter_; }
    /// to = the elements of a shard of one of our matrices, as fp32. Several threads may call it.
    void read(const Shard& part, std::span<float> to) const;

private:
    /// A linear layer of the file.
    struct Module {
        std::string name;  ///< without the prefix, "transformer.h.0.attn.c_attn"
        std::int64_t inputs = 0;
        std::int64_t outputs = 0;
        const SafetensorsEntry* a = nullptr;
        const SafetensorsEntry* b = nullptr;
        std::int64_t rank = 0;  ///< of each of our layers
        bool divided = false;   ///< each of these has a block of its A and B, in their order
        std::vector<TensorPart> parts;  ///< our weights that are adapted
    };

    std::vector<Module> modules_of(const std::vector<ForeignTensor>& weights) const;
    const SafetensorsEntry* find(const std::string& module, std::string_view matrix) const;
    void check_shape(const Module& module) const;
    /// Gives each of our layers its part of a module with several times the general rank.
    void divide(Module& module, const std::map<std::string, Shape>& shapes) const;
    void choose_adapter(const std::vector<Module>& modules);
    void place(const Module& module, const std::map<std::string, Shape>& shapes);
    std::span<const std::byte> keep(std::vector<float> values);
    std::vector<float> values_of(const SafetensorsEntry& entry) const;
    [[noreturn]] void refuse(const auto&... parts) const;

    std::filesystem::path folder_;
    PeftConfig config_;
    SafetensorsFile file_;
    AdapterSpec adapter_;
    StoredTensors places_;
    std::vector<std::vector<float>> kept_;  ///< matrices that were divided
};

}  // namespace gptrain
