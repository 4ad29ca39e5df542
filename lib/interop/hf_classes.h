// The classes of Hugging Face's transformers that compute what one of our models does.
#pragma once

#include <string>
#include <string_view>

#include "interop/hf_class.h"
#include "spec/run_plan.h"

namespace gptrain {

/// The names of a class in config.json, and the keys and defaults in which the classes differ.
struct HfClassNames {
    HfClass hf_class = HfClass::llama;
    std::string_view model_type;
    std::string_view architecture;
    std::string_view layers = "num_hidden_layers";
    std::string_view hidden = "hidden_size";
    std::string_view heads = "num_attention_heads";
    std::string_view ffn = "intermediate_size";
    std::string_view positions = "max_position_embeddings";
    std::string_view activation = "hidden_act";
    std::string_view activation_word = "silu";  ///< the default
    std::string_view norm_eps = "rms_norm_eps";
    std::string_view experts = {};  ///< how many; empty: the class has none
    std::string_view expert_ffn = "moe_intermediate_size";
    double default_eps = 1e-6;
    double default_theta = 10000.0;
    bool tied = false;  ///< the default of tie_word_embeddings
};

const HfClassNames& names_of(HfClass hf_class);

/// Its word for an activation function.
std::string_view activation_word(const HfClassNames& names, Activation activation);

/// Replaces the keys of a run spec in a message by those of config.json.
std::string with_hf_keys(std::string message, HfClass hf_class);

/// The class with this model_type; null if there is none.
const HfClassNames* find_class(std::string_view model_type);

/// True if tokens of some layer see at most model.sliding_window keys.
bool has_windows(const ModelShape& model);

/// The class that computes the same as the model. If there is none: Error (usage) that names the
/// keys.
HfClass hf_class_of(const ModelShape& model);

}  // namespace gptrain
