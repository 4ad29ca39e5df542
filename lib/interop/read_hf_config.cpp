#include <algorithm>
#include <initializer_list>

#include "interop/hf_config.h"
#include "interop/hf_expert_config.h"
#include "interop/hf_members.h"

namespace gptrain {
namespace {

const HfClassNames& class_in(const HfMembers& config) {
    const std::string type = config.word("model_type");
    const HfClassNames* found = find_class(type);
    if (type == "gpt_oss")
        config.refuse("model_type", "gptrain lacks its attention sinks, though it has its experts");
    if (found == nullptr) {
        config.refuse("model_type",
                      "gptrain reads gpt2, llama, mistral, ministral, qwen2, qwen3, stablelm, "
                      "starcoder2, mixtral, qwen2_moe, qwen3_moe and glm4_moe");
    }
    if (config.has("architectures") &&
        config.json().at("architectures") != Json::array({found->architecture})) {
        config.refuse("architectures", "gptrain reads ", found->architecture);
    }
    return *found;
}

bool is_any(std::string_view word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

/// transformers (ACT2FN) has several words for one function.
Activation activation_in(const HfMembers& config, const HfClassNames& names) {
    const std::string word = config.has(names.activation) ? config.word(names.activation)
                                                          : std::string(names.activation_word);
    if (names.activation_word == "silu") {
        if (is_any(word, {"silu", "swish"})) return Activation::swiglu;
        config.refuse(names.activation, "gptrain supports only \"silu\"");
    }
    if (is_any(word, {"gelu", "gelu_python"})) return Activation::gelu_erf;
    if (is_any(word,
               {"gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh"}))
        return Activation::gelu;
    config.refuse(names.activation, "gptrain has gelu, gelu_new, gelu_fast and gelu_pytorch_tanh");
}

/// The settings of rotations in config.json: as in transformers rope_scaling, unless it is empty,
/// or else rope_parameters.
std::optional<HfMembers> rope_in(const HfMembers& config) {
    for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
        if (!config.has(key)) continue;
        const HfMembers rope(config.json().at(std::string(key)),
                             text(config.source(), ": '", key, "'"));
        for (const auto& [member, value] : rope.json().items())
            if (value.is_object()) rope.refuse(member, "gptrain rotates alike in all layers");
        if (!rope.json().empty()) return rope;
    }
    return std::nullopt;
}

/// "rope_type", or as version 4 called it at first, "type".
std::string rope_type_in(const HfMembers& rope) {
    for (const std::string_view key : {"rope_type", "type"})
        if (rope.has(key)) return rope.word(key);
    return "default";
}

std::optional<RopeScaling> rope_scaling_in(const HfMembers& config, const HfMembers& rope,
                                           const ModelSpec& model) {
    const std::string type = rope_type_in(rope);
    if (type == "default") return std::nullopt;
    RopeScaling scaling;
    if (type == "linear") {
        scaling.kind = RopeScalingKind::linear;
    } else if (type == "llama3") {
        scaling.kind = RopeScalingKind::llama3;
    } else if (type == "yarn") {
        scaling.kind = RopeScalingKind::yarn;
        for (const std::string_view key : {"mscale", "mscale_all_dim"})
            rope.require_absent(key, text("yarn with ", key));
        rope.require("truncate", true, true);
    } else {
        rope.refuse(rope.has("rope_type") ? "rope_type" : "type",
                    "gptrain has default, linear, llama3 and yarn");
    }
    scaling.factor = rope.number("factor", 0);
    if (scaling.factor < 1)
        fail(ExitCode::bad_input, rope.source(), ": 'factor' is missing or below 1");
    if (scaling.kind != RopeScalingKind::linear) {
        constexpr std::string_view key = "original_max_position_embeddings";
        scaling.original_max_position_embeddings =
            (config.has(key) ? config : rope).size(key, *model.max_position_embeddings);
    }
    if (scaling.kind == RopeScalingKind::llama3) {
        scaling.low_freq_factor = rope.number("low_freq_factor", scaling.low_freq_factor);
        scaling.high_freq_factor = rope.number("high_freq_factor", scaling.high_freq_factor);
    }
    if (scaling.kind == RopeScalingKind::yarn) {
        scaling.beta_fast = rope.number("beta_fast", scaling.beta_fast);
        scaling.beta_slow = rope.number("beta_slow", scaling.beta_slow);
        if (rope.has("attention_factor"))
            scaling.attention_factor = rope.number("attention_factor", 1);
    }
    return scaling;
}

void read_rope(const HfMembers& config, double default_theta, ModelSpec& model) {
    model.rope_theta = config.number("rope_theta", default_theta);
    const std::optional<HfMembers> rope = rope_in(config);
    if (!rope) return;
    rope->require("partial_rotary_factor", 1.0, 1.0);
    model.rope_scaling = rope_scaling_in(config, *rope, model);
    model.rope_theta = rope->number("rope_theta", model.rope_theta);
}

/// The window: null is none, an absent key `otherwise`.
void read_window(const HfMembers& config, ModelSpec& model, std::optional<std::int64_t> otherwise) {
    if (config.has("sliding_window"))
        model.sliding_window = config.size("sliding_window");
    else if (!config.json().contains("sliding_window"))
        model.sliding_window = otherwise;
}

/// The layers without the window.
void read_layer_types(const HfMembers& config, ModelSpec& model) {
    const Json& types = JsonReader(config.json(), config.source()).array("layer_types");
    if (std::ssize(types) != model.num_layers)
        config.refuse("layer_types", "it needs an entry for each layer");
    for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
        const Json& type = types[static_cast<std::size_t>(layer)];
        if (type == "full_attention")
            model.full_attention_layers.push_back(layer);
        else if (type != "sliding_attention")
            config.refuse("layer_types", "gptrain has full_attention and sliding_attention");
    }
}

/// Qwen: the window of the layers that layer_types names, or else from max_window_layers on.
void read_layer_windows(const HfMembers& config, ModelSpec& model) {
    if (!config.flag("use_sliding_window", false)) return;
    read_window(config, model, 4096);
    if (!model.sliding_window) return;
    if (config.has("layer_types")) return read_layer_types(config, model);
    const std::int64_t first =
        config.has("max_window_layers")
            ? JsonReader(config.json(), config.source()).integer("max_window_layers")
            : 28;
    for (std::int64_t layer = 0; layer < std::min(first, model.num_layers); ++layer)
        model.full_attention_layers.push_back(layer);
}

void read_llama(const HfMembers& config, ModelSpec& model) {
    config.require_absent("sliding_window", "sliding window in this class");
    model.bias = config.flag("attention_bias", false);
    if (config.flag("mlp_bias", false) != model.bias) {
        config.refuse(model.bias ? "attention_bias" : "mlp_bias",
                      "gptrain has either all biases or none, or those of q, k and v: "
                      "attention_bias and mlp_bias must be equal");
    }
}

void read_qwen2(const HfMembers& config, ModelSpec& model) {
    model.bias = false;
    model.qkv_bias = true;
    read_layer_windows(config, model);
}

void read_qwen3(const HfMembers& config, ModelSpec& model) {
    model.bias = false;
    model.qk_norm = QkNorm::head;
    config.require("attention_bias", false, false);
    if (!config.has("head_dim")) model.head_dim = 128;
    read_layer_windows(config, model);
}

/// With layer_types transformers reads a Mistral as a Ministral.
void read_mistral(const HfMembers& config, ModelSpec& model) {
    model.bias = false;
    read_window(config, model, 4096);
    if (!model.sliding_window || !config.has("layer_types")) return;
    read_layer_types(config, model);
    if (std::ssize(model.full_attention_layers) < model.num_layers) return;
    model.sliding_window.reset();
    model.full_attention_layers.clear();
}

/// `otherwise`: the part of a head's features that is rotated if the key is absent.
void require_whole_rotation(const HfMembers& config, double otherwise) {
    const std::optional<HfMembers> rope = rope_in(config);
    if (!rope || !rope->has("partial_rotary_factor"))
        config.require("partial_rotary_factor", 1.0, otherwise);
}

void read_stablelm(const HfMembers& config, ModelSpec& model) {
    model.normalization = Normalization::layernorm;
    model.bias = false;
    model.qkv_bias = config.flag("use_qkv_bias", false);
    config.require("qk_layernorm", false, false);
    config.require("use_parallel_residual", false, false);
    require_whole_rotation(config, 0.25);
}

void read_starcoder2(const HfMembers& config, ModelSpec& model) {
    model.normalization = Normalization::layernorm;
    model.bias = config.flag("use_bias", true);
    read_window(config, model, std::nullopt);
}

void read_mixtral(const HfMembers& config, ModelSpec& model) {
    model.bias = false;
    read_window(config, model, std::nullopt);
}

/// Without layer_types, versions of transformers disagree about the layers with a window.
void read_qwen2_moe(const HfMembers& config, ModelSpec& model) {
    model.bias = false;
    model.qkv_bias = config.flag("qkv_bias", true);
    if (config.flag("use_sliding_window", false) && !config.has("layer_types"))
        config.refuse("use_sliding_window", "gptrain then needs layer_types");
    read_layer_windows(config, model);
}

void read_qwen3_moe(const HfMembers& config, ModelSpec& model) {
    model.bias = false;
    model.qk_norm = QkNorm::head;
    config.require("attention_bias", false, false);
    if (config.flag("use_sliding_window", false)) read_window(config, model, 4096);
}

void read_glm4_moe(const HfMembers& config, ModelSpec& model) {
    model.bias = false;
    model.qkv_bias = config.flag("attention_bias", false);
    if (config.flag("use_qk_norm", false)) model.qk_norm = QkNorm::head;
    require_whole_rotation(config, 0.5);
}

void read_gpt2(const HfMembers& config, ModelSpec& model) {
    model.position_embedding = PositionEmbedding::learned;
    config.require("scale_attn_weights", true, true);
    config.require("scale_attn_by_inverse_layer_idx", false, false);
    config.require("add_cross_attention", false, false);
}

void read_variant(const HfMembers& config, const HfClassNames& names, ModelSpec& model) {
    if (names.hf_class == HfClass::gpt2) return read_gpt2(config, model);
    model.position_embedding = PositionEmbedding::rope;
    model.normalization = Normalization::rmsnorm;
    switch (names.hf_class) {
        case HfClass::gpt2: break;
        case HfClass::llama: read_llama(config, model); break;
        case HfClass::mistral:
        case HfClass::ministral: read_mistral(config, model); break;
        case HfClass::qwen2: read_qwen2(config, model); break;
        case HfClass::qwen3: read_qwen3(config, model); break;
        case HfClass::stablelm: read_stablelm(config, model); break;
        case HfClass::starcoder2: read_starcoder2(config, model); break;
        case HfClass::mixtral: read_mixtral(config, model); break;
        case HfClass::qwen2_moe: read_qwen2_moe(config, model); break;
        case HfClass::qwen3_moe: read_qwen3_moe(config, model); break;
        case HfClass::glm4_moe: read_glm4_moe(config, model); break;
    }
    read_rope(config, names.default_theta, model);
    if (!names.experts.empty()) read_hf_experts(config, names, model);
}

/// The ids under a key (one or a list) that are in the vocabulary.
std::vector<std::int64_t> ids_in(const HfMembers& config, std::string_view key,
                                 std::int64_t vocab) {
    std::vector<std::int64_t> ids;
    if (!config.has(key)) return ids;
    const Json& value = config.json().at(std::string(key));
    for (const Json& one : value.is_array() ? value : Json::array({value})) {
        if (!one.is_number_integer()) config.refuse(key, "it must be an id");
        const auto id = one.get<std::int64_t>();
        if (id >= 0 && id < vocab) ids.push_back(id);
    }
    return ids;
}

std::optional<std::int64_t> first_of(const std::vector<std::int64_t>& ids) {
    return ids.empty() ? std::nullopt : std::optional(ids.front());
}

}  // namespace

HfConfig read_hf_config(const Json& json, const std::string& source) {
    const HfMembers config(json, source);
    const HfClassNames& names = class_in(config);
    config.require_absent("quantization_config", "quantized weights; export it as bf16 first");
    HfConfig result{.hf_class = names.hf_class, .model = {}, .ids = {}};
    ModelSpec& model = result.model;
    model.num_layers = config.size(names.layers);
    model.hidden_size = config.size(names.hidden);
    model.num_attention_heads = config.size(names.heads);
    model.num_query_groups = config.size("num_key_value_heads", model.num_attention_heads);
    model.head_dim = config.size(
        "head_dim", std::max<std::int64_t>(model.hidden_size / model.num_attention_heads, 1));
    const bool is_gpt2 = names.hf_class == HfClass::gpt2;
    model.ffn_hidden_size =
        is_gpt2 ? config.size(names.ffn, 4 * model.hidden_size) : config.size(names.ffn);
    model.vocab_size = config.size("vocab_size");
    model.max_position_embeddings = config.size(names.positions);
    model.activation = activation_in(config, names);
    model.norm_eps = config.number(names.norm_eps, names.default_eps);
    model.tie_embeddings = config.flag("tie_word_embeddings", names.tied);
    model.init_std = config.number_from_0("initializer_range", model.init_std);
    read_variant(config, names, model);
    // They differ in windows alone, whatever the config.json calls itself.
    if (names.hf_class == HfClass::mistral || names.hf_class == HfClass::ministral)
        result.hf_class = hf_class_of(shape_of(model));
    result.ids = special_ids(json, source, model.vocab_size);
    return result;
}

SpecialIds special_ids(const Json& json, const std::string& source, std::int64_t vocab) {
    const HfMembers config(json, source);
    const std::vector<std::int64_t> ends = ids_in(config, "eos_token_id", vocab);
    SpecialIds ids = {.bos = first_of(ids_in(config, "bos_token_id", vocab)),
                      .eos = first_of(ends)};
    if (ends.size() > 1) ids.more_eos.assign(ends.begin() + 1, ends.end());
    return ids;
}

ModelShape shape_of(const ModelSpec& model) {
    ModelShape shape{ModelVariant(model)};
    shape.layers = model.num_layers;
    shape.hidden = model.hidden_size;
    shape.heads = model.num_attention_heads;
    shape.groups = model.num_query_groups.value();
    shape.head_dim = model.head_dim.value();
    shape.ffn = model.ffn_hidden_size.value();
    shape.vocab = model.vocab_size;
    shape.max_positions = model.max_position_embeddings.value();
    shape.qkv_bias = model.qkv_bias.value_or(model.bias);
    shape.attention_bias = model.attention_bias.value_or(model.bias);
    shape.norm_bias = model.norm_bias.value_or(model.bias);
    return shape;
}

}  // namespace gptrain
