// A model as Hugging Face's transformers saves it: a folder with config.json and the weights in
// model.safetensors or, without that file, in several files with model.safetensors.index.json.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "interop/foreign_tensors.h"
#include "interop/hf_config.h"
#include "interop/safetensors.h"
#include "interop/stored_tensors.h"

namespace gptrain {

/// File names in the folder.
constexpr std::string_view hf_config_name = "config.json";
constexpr std::string_view hf_weights_name = "model.safetensors";
constexpr std::string_view hf_index_name = "model.safetensors.index.json";
constexpr std::string_view hf_generation_name = "generation_config.json";

/// The largest config.json, index or tokenizer file that is read.
constexpr std::int64_t max_hf_file_bytes = std::int64_t{64} << 20;

/// True if the folder holds such a model.
bool is_hf_folder(const std::filesystem::path& folder);

/// Parses an index: the file of each tensor. File names are plain names.
std::map<std::string, std::string> parse_hf_index(std::string_view json, const std::string& source);

/// An opened model whose tensors are all there, with the right shapes. Error (bad_input): a file
/// is missing or faulty, or no run spec expresses the model.
class HfFolder {
public:
    explicit HfFolder(const std::filesystem::path& folder);

    const std::filesystem::path& path() const { return folder_; }
    const HfConfig& config() const { return config_; }
    const ModelShape& shape() const { return shape_; }
    const RunSpec& spec() const { return spec_; }

    /// Tensors that the model of config.json does not use, except those that follow from others:
    /// rotary frequencies, causal masks and a tied head.
    const std::vector<std::string>& unused_tensors() const { return unused_tensors_; }
    /// to = the elements of a shard of one of our tensors, as fp32. Several threads may call it.
    void read(const Shard& part, std::span<float> to) const;
    /// The matrix of which `part` is a part, or that of its first expert, as it is stored in NF4;
    /// nothing if it is not, or only as a part of a larger one.
    std::optional<Nf4View> nf4_matrix(const Shard& part) const;
    /// For a folder to which `model` was written: check_read_back of it, and check_stored of all
    /// tensors.
    void check(const ModelShape& model, const WeightReader& weights) const;

private:
    using TensorFiles = std::map<std::string, const SafetensorsFile*, std::less<>>;

    void open_files();
    void open_indexed();
    const SafetensorsFile& open(const std::string& name);
    void place_tensors();
    /// Files of some classes have biases of norms in any case. If all of them are 0 in a model
    /// without other biases, it has none. `source`: config.json.
    void settle_norm_biases(const std::string& source);
    /// The tensor, which may lack the prefix "transformer.".
    TensorFiles::const_iterator find(std::string_view name) const;
    /// The name of a tied head. Error (bad_input) if the file has it with other values than those
    /// of the embedding.
    std::string check_tied_head() const;
    std::optional<FolderTensor> folder_tensor(const std::string& name) const;
    /// The names of the tensors that hold it in the files; none if they lack it and may.
    std::vector<std::string> place(const ForeignTensor& tensor,
                                   const std::map<std::string, Shape>& shapes);

    std::filesystem::path folder_;
    HfConfig config_;
    RunSpec spec_;
    ModelShape shape_;
    std::map<std::string, SafetensorsFile> files_;
    TensorFiles tensors_;   ///< the file of each
    StoredTensors places_;  ///< of our tensors
    std::vector<std::string> unused_tensors_;
};

/// Prints a warning if the folder has unused tensors: its config.json may describe another model.
void warn_of_unused_tensors(const HfFolder& folder);

}  // namespace gptrain
