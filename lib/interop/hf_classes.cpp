#include "interop/hf_classes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "interop/hf_expert_classes.h"

namespace gptrain {
namespace {

constexpr auto classes = std::to_array<HfClassNames>({
    {.hf_class = HfClass::gpt2,
     .model_type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .layers = "n_layer",
     .hidden = "n_embd",
     .heads = "n_head",
     .ffn = "n_inner",
     .positions = "n_positions",
     .activation = "activation_function",
     .activation_word = "gelu_new",
     .norm_eps = "layer_norm_epsilon",
     .default_eps = 1e-5,
     .tied = true},
    {.hf_class = HfClass::llama, .model_type = "llama", .architecture = "LlamaForCausalLM"},
    {.hf_class = HfClass::mistral, .model_type = "mistral", .architecture = "MistralForCausalLM"},
    {.hf_class = HfClass::ministral,
     .model_type = "ministral",
     .architecture = "MinistralForCausalLM"},
    {.hf_class = HfClass::qwen2, .model_type = "qwen2", .architecture = "Qwen2ForCausalLM"},
    {.hf_class = HfClass::qwen3, .model_type = "qwen3", .architecture = "Qwen3ForCausalLM"},
    {.hf_class = HfClass::stablelm,
     .model_type = "stablelm",
     .architecture = "StableLmForCausalLM",
     .norm_eps = "layer_norm_eps",
     .default_eps = 1e-5},
    {.hf_class = HfClass::starcoder2,
     .model_type = "starcoder2",
     .architecture = "Starcoder2ForCausalLM",
     .activation_word = "gelu_pytorch_tanh",
     .norm_eps = "norm_epsilon",
     .default_eps = 1e-5,
     .tied = true},
    {.hf_class = HfClass::mixtral,
     .model_type = "mixtral",
     .architecture = "MixtralForCausalLM",
     .experts = "num_local_experts",
     .expert_ffn = "intermediate_size",
     .default_eps = 1e-5,
     .default_theta = 1e6},
    {.hf_class = HfClass::qwen2_moe,
     .model_type = "qwen2_moe",
     .architecture = "Qwen2MoeForCausalLM",
     .experts = "num_experts"},
    {.hf_class = HfClass::qwen3_moe,
     .model_type = "qwen3_moe",
     .architecture = "Qwen3MoeForCausalLM",
     .experts = "num_experts"},
    {.hf_class = HfClass::glm4_moe,
     .model_type = "glm4_moe",
     .architecture = "Glm4MoeForCausalLM",
     .experts = "n_routed_experts",
     .default_eps = 1e-5},
});

/// Puts `theirs` in the place of the key `ours`.
void replace_key(std::string& message, std::string_view ours, std::string_view theirs) {
    const auto goes_on = [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); };
    for (std::size_t at = message.find(ours); at != message.npos; at = message.find(ours, at)) {
        const std::size_t end = at + ours.size();
        if (end < message.size() && goes_on(message[end])) {
            at = end;
        } else {
            message.replace(at, ours.size(), theirs);
            at += theirs.size();
        }
    }
}

void require_default_heads(const ModelShape& model, std::string_view class_name) {
    if (model.heads * model.head_dim == model.hidden) return;
    no_hf_class("this model's model.head_dim ", model.head_dim, ": ", class_name,
                " needs model.hidden_size / model.num_attention_heads");
}

}  // namespace

const HfClassNames& names_of(HfClass hf_class) {
    return *std::ranges::find(classes, hf_class, &HfClassNames::hf_class);
}

std::string_view activation_word(const HfClassNames& names, Activation activation) {
    return activation == Activation::gelu_erf ? "gelu" : names.activation_word;
}

std::string with_hf_keys(std::string message, HfClass hf_class) {
    const HfClassNames& names = names_of(hf_class);
    const std::pair<std::string_view, std::string_view> keys[] = {
        {"model.num_layers", names.layers},
        {"model.hidden_size", names.hidden},
        {"model.num_attention_heads", names.heads},
        {"model.num_query_groups", "num_key_value_heads"},
        {"model.ffn_hidden_size", names.ffn},
        {"model.max_position_embeddings", names.positions},
        {"training.seq_length", names.positions},
        {"model.norm_eps", names.norm_eps},
        {"model.init_std", "initializer_range"},
        {"model.full_attention_layers", "layer_types"},
        {"model.tie_embeddings", "tie_word_embeddings"},
        {"data.eod_id", "eos_token_id"},
        {"model.experts.count", names.experts},
        {"model.experts.per_token", "num_experts_per_tok"},
        {"model.experts.ffn_hidden_size", names.expert_ffn},
        {"model.experts.shared.ffn_hidden_size",
         hf_class == HfClass::glm4_moe ? "n_shared_experts" : "shared_expert_intermediate_size"},
        {"model.experts.router.groups.count", "n_group"},
        {"model.experts.router.groups.keep", "topk_group"},
        {"model.experts.router.scale", "routed_scaling_factor"},
        {"model.experts.router.normalize", "norm_topk_prob"},
        {"model.experts.balance.aux_weight", "router_aux_loss_coef"},
    };
    for (const auto& [ours, theirs] : keys)
        replace_key(message, ours, theirs);
    // config.json has the same names for the other keys, but no section.
    constexpr std::string_view section = "model.";
    for (std::size_t at = message.find(section); at != message.npos; at = message.find(section, at))
        message.erase(at, section.size());
    return message;
}

const HfClassNames* find_class(std::string_view model_type) {
    const auto found = std::ranges::find(classes, model_type, &HfClassNames::model_type);
    return found == classes.end() ? nullptr : &*found;
}

bool has_windows(const ModelShape& model) {
    bool any = false;
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        any = any || model.has_window(layer);
    return any;
}

HfClass hf_class_of(const ModelShape& model) {
    if (model.experts) return hf_class_with_experts(model);
    const bool rope = model.position_embedding == PositionEmbedding::rope;
    const bool rmsnorm = model.normalization == Normalization::rmsnorm;
    const bool swiglu = model.activation == Activation::swiglu;
    const bool gelu =
        model.activation == Activation::gelu || model.activation == Activation::gelu_erf;
    const bool same_bias = model.qkv_bias == model.bias;
    const bool window = has_windows(model);
    const bool all_windows = window && model.full_attention_layers.empty();
    if (!rope && !rmsnorm && gelu && same_bias && model.qk_norm == QkNorm::none && !window) {
        require_default_heads(model, "GPT-2");
        if (model.groups != model.heads) {
            no_hf_class("learned positions with model.num_query_groups ", model.groups,
                        " below model.num_attention_heads ", model.heads);
        }
        return HfClass::gpt2;
    }
    if (rope && rmsnorm && swiglu) {
        if (model.qk_norm == QkNorm::head && !model.bias && !model.qkv_bias) return HfClass::qwen3;
        if (model.qk_norm == QkNorm::none && !model.bias && model.qkv_bias) {
            require_default_heads(model, "Qwen2");
            return HfClass::qwen2;
        }
        if (model.qk_norm == QkNorm::none && same_bias && !window) return HfClass::llama;
        if (model.qk_norm == QkNorm::none && same_bias && !model.bias)
            return all_windows ? HfClass::mistral : HfClass::ministral;
    }
    if (rope && !rmsnorm && model.qk_norm == QkNorm::none && gelu && same_bias &&
        (!window || all_windows))
        return HfClass::starcoder2;
    if (rope && !rmsnorm && model.qk_norm == QkNorm::none && swiglu && !model.bias && !window) {
        require_default_heads(model, "StableLM");
        return HfClass::stablelm;
    }
    no_hf_class("this combination: model.position_embedding ", name_of(model.position_embedding),
                ", model.normalization ", name_of(model.normalization), ", model.activation ",
                name_of(model.activation), ", model.bias ", model.bias, ", model.qkv_bias ",
                model.qkv_bias, ", model.qk_norm ", name_of(model.qk_norm),
                ", model.sliding_window ", window ? text(*model.sliding_window) : "none",
                window && !all_windows ? " except in model.full_attention_layers" : "");
}

}  // namespace gptrain
