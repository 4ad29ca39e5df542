#include <algorithm>
#include <cmath>

#include "interop/bitsandbytes.h"
#include "interop/hf_config.h"
#include "interop/hf_expert_config.h"
#include "interop/hf_rope.h"

namespace gptrain {
namespace {

const HfFamily& family_in(const HfMembers& config) {
    const std::string type = config.word("model_type");
    const HfFamily* found = find_family(type);
    if (found == nullptr) {
        std::string types;
        for (const HfFamily& family : hf_families())
            types += text(types.empty() ? "" : ", ", family.model_type);
        config.refuse("model_type", "gptrain reads ", types);
    }
    if (config.has("architectures") &&
        config.json().at("architectures") != Json::array({found->architecture})) {
        config.refuse("architectures", "gptrain reads ", found->architecture);
    }
    return *found;
}

/// transformers (ACT2FN) has several words for one function.
Activation activation_in(const HfMembers& config, const HfFamily& family) {
    const std::string_view key = family.activation;
    const std::string word =
        !key.empty() && config.has(key) ? config.word(key) : std::string(family.activation_word);
    if (const auto activation = activation_of(word, family.gated)) return *activation;
    config.refuse(key, "gptrain has here ",
                  family.gated ? "silu and gelu_pytorch_tanh"
                               : "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu and relu2");
}

bool flag_in(const HfMembers& config, HfFlag flag) {
    return flag.key.empty() ? flag.value : config.flag(flag.key, flag.value);
}

void read_biases(const HfMembers& config, const HfFamily& family, ModelSpec& model) {
    const HfBiases& biases = family.biases;
    model.bias = flag_in(config, biases.mlp);
    // The keys of ours are set only where they differ from `bias`.
    const auto other = [&](HfFlag flag) {
        const bool bias = flag_in(config, flag);
        return bias == model.bias ? std::nullopt : std::optional(bias);
    };
    model.qkv_bias = other(biases.qkv);
    model.attention_bias = other(biases.attention);
    if (family.normalization == Normalization::layernorm) model.norm_bias = other(biases.norm);
    model.head_bias = flag_in(config, biases.head);
}

/// Reads what the row and config.json say of positions, norms, activation, biases and experts.
void read_variant(const HfMembers& config, const HfFamily& family, ModelSpec& model) {
    model.position_embedding = family.position;
    model.normalization = family.normalization;
    model.activation = activation_in(config, family);
    model.norm_placement = family.placement;
    if (flag_in(config, family.parallel_key)) model.parallel_residual = family.parallel;
    const bool with_norms = family.qk_norm_key.empty() || config.flag(family.qk_norm_key, false);
    if (with_norms) model.qk_norm = family.qk_norm;
    model.attention_sinks = family.sinks;
    model.embedding_norm = family.embedding_norm;
    if (family.scaled_embedding) model.embedding_scale = hf_embedding_scale(model.hidden_size);
    read_biases(config, family, model);
    if (family.keys.read != nullptr) family.keys.read(config, model);
    if (family.position == PositionEmbedding::rope) read_hf_rope(config, family, model);
    if (!family.experts.empty()) read_hf_experts(config, family, model);
}

/// Cohere multiplies logits. Our last norm takes over the factor, exactly if it is a power of 2.
double logit_factor_in(const HfMembers& config, const HfFamily& family) {
    if (family.hf_class != HfClass::cohere && family.hf_class != HfClass::cohere2) return 1;
    constexpr std::string_view key = "logit_scale";
    const double factor = config.number(key, 0.0625);
    int exponent = 0;
    if (std::frexp(factor, &exponent) != 0.5 || std::abs(exponent) > 20)
        config.refuse(key, "gptrain has powers of 2, from 2^-20 to 2^19");
    return factor;
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
    const HfFamily& family = family_in(config);
    if (config.has("quantization_config"))
        check_quantization_config(json.at("quantization_config"), source);
    HfConfig result{.hf_class = family.hf_class, .model = {}, .ids = {}};
    ModelSpec& model = result.model;
    model.num_layers = config.size(family.layers);
    const bool older_name = !config.has(family.hidden) && config.has("n_embed");
    model.hidden_size = config.size(older_name ? "n_embed" : family.hidden);
    model.num_attention_heads = config.size(family.heads);
    model.num_query_groups = family.groups.empty()
                                 ? model.num_attention_heads
                                 : config.size(family.groups, model.num_attention_heads);
    const std::int64_t usual_head_dim =
        std::max<std::int64_t>(model.hidden_size / model.num_attention_heads, 1);
    const std::int64_t default_head_dim =
        family.default_head_dim > 0 ? family.default_head_dim : usual_head_dim;
    model.head_dim =
        family.groups.empty() ? usual_head_dim : config.size("head_dim", default_head_dim);
    const std::int64_t usual_ffn = 4 * model.hidden_size;
    model.ffn_hidden_size = family.ffn.empty()   ? usual_ffn
                            : family.default_ffn ? config.size(family.ffn, usual_ffn)
                                                 : config.size(family.ffn);
    model.vocab_size = config.size("vocab_size");
    model.max_position_embeddings = family.default_positions > 0
                                        ? config.size(family.positions, family.default_positions)
                                        : config.size(family.positions);
    model.norm_eps = family.norm_eps.empty() ? family.default_eps
                                             : config.number(family.norm_eps, family.default_eps);
    model.tie_embeddings = config.flag("tie_word_embeddings", family.tied);
    model.init_std = config.number_from_0(family.init_std, model.init_std);
    read_variant(config, family, model);
    result.logit_factor = logit_factor_in(config, family);
    // They differ in windows alone, whatever the config.json calls itself.
    if (result.hf_class == HfClass::mistral || result.hf_class == HfClass::ministral)
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
