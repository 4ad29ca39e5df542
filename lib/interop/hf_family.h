// A class of Hugging Face's transformers as a row of data: the names of its keys, and which of our
// models it computes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "interop/hf_class.h"
#include "interop/hf_members.h"
#include "spec/run_plan.h"

namespace gptrain {

/// A flag of a class: always `value`, or the member `key` of config.json, which is `value` where it
/// is absent.
struct HfFlag {
    bool value = false;
    std::string_view key = {};
};

/// Where a class has biases. Those of norms count only for LayerNorm.
struct HfBiases {
    HfFlag qkv = {}, attention = {}, mlp = {}, norm = {.value = true}, head = {};
};

namespace hf_rows {

constexpr HfFlag always = {.value = true};
constexpr HfFlag never = {.value = false};
constexpr HfFlag attention_bias = {.value = false, .key = "attention_bias"};
constexpr HfFlag mlp_bias = {.value = false, .key = "mlp_bias"};
constexpr HfBiases all_biases = {.qkv = always, .attention = always, .mlp = always};
/// Of q, k, v and the projection after them.
constexpr HfBiases attention_biases = {.qkv = attention_bias, .attention = attention_bias};
constexpr HfBiases llama_biases = {
    .qkv = attention_bias, .attention = attention_bias, .mlp = mlp_bias};

/// All biases but those of norms, which are always there, by one key.
constexpr HfBiases biases_by(HfFlag flag) {
    return {.qkv = flag, .attention = flag, .mlp = flag};
}

}  // namespace hf_rows

/// The layers with a window.
enum class HfWindows {
    none,
    all,   ///< all, or none without `sliding_window`
    some,  ///< those of layer_types
};

/// The layers without rotation.
enum class HfUnrotated {
    none,
    some,        ///< any
    unwindowed,  ///< those without a window
};

/// How a class groups heads around keys and values.
enum class HfHeads {
    grouped,    ///< in groups of any size
    ungrouped,  ///< each head alone
    extremes,   ///< each alone, or all together
};

/// Keys that only some classes have.
struct HfKeys {
    /// Reads them into a model with all sizes and the settings of the row.
    void (*read)(const HfMembers& config, ModelSpec& model) = nullptr;
    /// Adds them to the config.json of a model of the class.
    void (*write)(const ModelShape& model, Json& config) = nullptr;
    /// A condition on the models that the class computes, for which the row has no field.
    bool (*fits)(const ModelShape& model) = nullptr;
};

struct HfFamily {
    HfClass hf_class = HfClass::llama;
    std::string_view model_type;
    std::string_view architecture;

    // Keys, and what they mean where they are absent.
    std::string_view layers = "num_hidden_layers";
    std::string_view hidden = "hidden_size";
    std::string_view heads = "num_attention_heads";
    std::string_view groups = "num_key_value_heads";  ///< empty: `keys` has it, or none
    std::string_view ffn = "intermediate_size";       ///< empty: always 4 * hidden
    std::string_view positions = "max_position_embeddings";
    std::string_view activation = "hidden_act";  ///< empty: always activation_word
    std::string_view norm_eps = "rms_norm_eps";  ///< empty: always default_eps
    std::string_view init_std = "initializer_range";
    std::string_view dropout = "attention_dropout";
    std::string_view experts = {};  ///< how many; empty: the class has none
    std::string_view expert_ffn = "moe_intermediate_size";
    std::string_view rotary = {};           ///< the rotated share of a head; empty: all of it
    std::string_view theta = "rope_theta";  ///< empty: always default_theta, not stretched
    std::string_view activation_word = "silu";
    double default_eps = 1e-6;
    double default_theta = 10000.0;
    double default_rotary = 1;
    std::int64_t default_head_dim = 0;   ///< 0: hidden / heads
    std::int64_t default_positions = 0;  ///< 0: the key must be there
    bool default_ffn = false;            ///< 4 * hidden; without it the key must be there
    bool tied = false;                   ///< of tie_word_embeddings

    // The models that it computes.
    PositionEmbedding position = PositionEmbedding::rope;
    Normalization normalization = Normalization::rmsnorm;
    bool gated = true;  ///< the mlp has a gate
    QkNorm qk_norm = QkNorm::none;
    std::string_view qk_norm_key = {};  ///< true: qk_norm, otherwise none; empty: always qk_norm
    NormPlacement placement = NormPlacement::before;
    ParallelResidual parallel = ParallelResidual::none;
    /// A flag with which it is as `parallel` has it, otherwise none; empty: always.
    HfFlag parallel_key = {.value = true};
    bool any_parallel = false;  ///< of any kind, as `keys` has it
    HfBiases biases = {};
    HfHeads grouping = HfHeads::grouped;
    bool any_head_dim = true;  ///< not only hidden / heads
    HfWindows windows = HfWindows::none;
    HfUnrotated unrotated = HfUnrotated::none;
    bool softcaps = false;
    bool sinks = false;
    bool scaled_embedding = false;  ///< by the square root of the hidden size
    bool embedding_norm = false;
    bool two_thetas = false;  ///< layers with a window have another base of rotations
    HfKeys keys = {};
};

}  // namespace gptrain
