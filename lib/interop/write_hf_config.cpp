#include "interop/hf_config.h"
#include "interop/hf_expert_config.h"

namespace gptrain {
namespace {

Json or_null(const std::optional<std::int64_t>& id) {
    return id ? Json(*id) : Json(nullptr);
}

std::string_view dtype_word(DType dtype) {
    switch (dtype) {
        case DType::bf16: return "bfloat16";
        case DType::f16: return "float16";
        default: return "float32";
    }
}

Json gpt2_config(const ModelShape& model, const HfClassNames& names) {
    return {{"n_layer", model.layers},
            {"n_embd", model.hidden},
            {"n_head", model.heads},
            {"n_inner", model.ffn},
            {"n_positions", model.max_positions},
            {"n_ctx", model.max_positions},
            {"activation_function", activation_word(names, model.activation)},
            {"layer_norm_epsilon", model.norm_eps},
            {"initializer_range", model.init_std},
            {"resid_pdrop", model.dropout},
            {"embd_pdrop", model.dropout},
            {"attn_pdrop", model.dropout}};
}

Json rope_scaling_config(const ModelShape& model) {
    if (!model.rope_scaling) return {{"rope_type", "default"}};
    const RopeScaling& scaling = *model.rope_scaling;
    Json rope = {{"rope_type", name_of(scaling.kind)}, {"factor", scaling.factor}};
    if (scaling.kind == RopeScalingKind::linear) return rope;
    rope["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
    if (scaling.kind == RopeScalingKind::llama3) {
        rope["low_freq_factor"] = scaling.low_freq_factor;
        rope["high_freq_factor"] = scaling.high_freq_factor;
    } else {
        rope["beta_fast"] = scaling.beta_fast;
        rope["beta_slow"] = scaling.beta_slow;
        if (scaling.attention_factor) rope["attention_factor"] = *scaling.attention_factor;
    }
    return rope;
}

Json layer_types(const ModelShape& model) {
    Json types = Json::array();
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        types.push_back(model.has_window(layer) ? "sliding_attention" : "full_attention");
    return types;
}

/// The first layer such that it and all later ones have a window.
std::int64_t first_windowed(const ModelShape& model) {
    std::int64_t first = model.layers;
    while (first > 0 && model.has_window(first - 1))
        --first;
    return first;
}

/// Qwen.
void add_windows(const ModelShape& model, const Json& window, Json& config) {
    config["use_sliding_window"] = model.sliding_window.has_value();
    config["sliding_window"] = window;
    config["max_window_layers"] = first_windowed(model);
    config["layer_types"] = layer_types(model);
}

/// Adds the keys that only some classes have.
void add_class_keys(const ModelShape& model, HfClass hf_class, Json& config) {
    const Json window = model.sliding_window ? Json(*model.sliding_window) : Json(nullptr);
    switch (hf_class) {
        case HfClass::gpt2: break;
        case HfClass::llama:
            config["attention_bias"] = model.bias;
            config["mlp_bias"] = model.bias;
            break;
        case HfClass::mistral: config["sliding_window"] = window; break;
        case HfClass::mixtral:
            config["sliding_window"] = has_windows(model) ? window : Json(nullptr);
            break;
        case HfClass::ministral:
            config["sliding_window"] = window;
            config["layer_types"] = layer_types(model);
            break;
        case HfClass::qwen3: config["attention_bias"] = false; [[fallthrough]];
        case HfClass::qwen2: add_windows(model, window, config); break;
        case HfClass::qwen2_moe:
            config["qkv_bias"] = model.qkv_bias;
            add_windows(model, window, config);
            break;
        case HfClass::qwen3_moe:
            config["attention_bias"] = false;
            config["use_sliding_window"] = has_windows(model);
            config["sliding_window"] = window;
            break;
        case HfClass::glm4_moe:
            config["partial_rotary_factor"] = 1.0;
            config["attention_bias"] = model.qkv_bias;
            config["use_qk_norm"] = model.qk_norm == QkNorm::head;
            break;
        case HfClass::stablelm:
            config["partial_rotary_factor"] = 1.0;
            config["use_qkv_bias"] = model.qkv_bias;
            config["qk_layernorm"] = false;
            config["use_parallel_residual"] = false;
            config["hidden_dropout"] = model.dropout;
            break;
        case HfClass::starcoder2:
            config["use_bias"] = model.bias;
            config["sliding_window"] = window;
            config["residual_dropout"] = model.dropout;
            config["embedding_dropout"] = model.dropout;
            break;
    }
}

Json rope_config(const ModelShape& model, const HfClassNames& names) {
    Json config = {{"num_hidden_layers", model.layers},
                   {"hidden_size", model.hidden},
                   {"num_attention_heads", model.heads},
                   {"num_key_value_heads", model.groups},
                   {"head_dim", model.head_dim},
                   {"intermediate_size", model.ffn},
                   {"max_position_embeddings", model.max_positions},
                   {"hidden_act", activation_word(names, model.activation)},
                   {"initializer_range", model.init_std},
                   {"attention_dropout", model.dropout}};
    config[std::string(names.norm_eps)] = model.norm_eps;
    add_class_keys(model, names.hf_class, config);
    if (model.experts) add_hf_experts(model, names, config);
    Json rope = rope_scaling_config(model);
    config["rope_theta"] = model.rope_theta;
    config["rope_scaling"] = model.rope_scaling ? rope : Json(nullptr);
    rope["rope_theta"] = model.rope_theta;
    if (config.contains("partial_rotary_factor")) rope["partial_rotary_factor"] = 1.0;
    config["rope_parameters"] = rope;
    return config;
}

/// An id, or a list of several.
Json ends_of(const SpecialIds& ids) {
    if (ids.more_eos.empty()) return or_null(ids.eos);
    Json ends = Json::array({*ids.eos});
    for (const std::int64_t id : ids.more_eos)
        ends.push_back(id);
    return ends;
}

}  // namespace

Json hf_config(const ModelShape& model, const SpecialIds& ids, DType dtype) {
    const HfClassNames& names = names_of(hf_class_of(model));
    Json config = {{"architectures", {names.architecture}}, {"model_type", names.model_type}};
    config.update(names.hf_class == HfClass::gpt2 ? gpt2_config(model, names)
                                                  : rope_config(model, names));
    config["vocab_size"] = model.vocab;
    config["tie_word_embeddings"] = model.tie_embeddings;
    config["bos_token_id"] = or_null(ids.bos);
    config["eos_token_id"] = ends_of(ids);
    config["dtype"] = dtype_word(dtype);
    config["torch_dtype"] = dtype_word(dtype);
    return config;
}

std::string generation_config(const SpecialIds& ids) {
    return to_document({{"bos_token_id", or_null(ids.bos)}, {"eos_token_id", ends_of(ids)}});
}

}  // namespace gptrain
