// adapter_config.json of Hugging Face's PEFT, of a LoRA adapter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace gptrain {

/// True if the folder holds an adapter and no model.
bool is_peft_folder(const std::filesystem::path& folder);

/// The settings of an adapter that its matrices do not show.
struct PeftConfig {
    /// A value for the modules whose name ends with the pattern, instead of the general one.
    struct Pattern {
        std::string module;
        double value = 0;
    };
    std::string base;  ///< base_model_name_or_path; empty: none
    std::int64_t rank = 8;
    double alpha = 8;
    double dropout = 0;
    bool rslora = false;  ///< the update is multiplied by alpha / sqrt(rank), not alpha / rank
    std::vector<Pattern> ranks;
    std::vector<Pattern> alphas;

    /// Of a module by its whole name, "transformer.h.0.attn.c_attn".
    std::int64_t rank_of(std::string_view module) const;
    double scale_of(std::string_view module) const;
};

/// Reads the file of a folder. Error (bad_input): it is missing or faulty, it is no LoRA, or it
/// asks for something that changes what LoRA computes (DoRA, trained biases or embeddings, other
/// base weights, only some layers) or is not known; the key is named.
PeftConfig read_peft_config(const std::filesystem::path& folder);

/// The same from the file's contents. `source` names it in messages.
PeftConfig parse_peft_config(const Json& json, const std::string& source);

/// The folder of the model that the adapter in `folder` names as its base: as it stands, or next to
/// the adapter. Error (usage) if there is none; `remedy` says what to do.
std::filesystem::path peft_base(const std::filesystem::path& folder, std::string_view remedy);

/// Warns on this rank if the adapter in `folder` names another base than `base`, by their last
/// names.
void warn_of_other_base(const std::filesystem::path& folder, const PeftConfig& config,
                        const std::filesystem::path& base);

}  // namespace gptrain
