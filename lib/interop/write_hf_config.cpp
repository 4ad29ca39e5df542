#include "interop/hf_config.h"
#include "interop/hf_expert_config.h"
#include "interop/hf_rope.h"

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

/// A key of several flags is written once: they are equal (hf_class_of).
void add_flag(HfFlag flag, bool value, Json& config) {
    if (!flag.key.empty()) config[std::string(flag.key)] = value;
}

void add_biases(const ModelShape& model, const HfBiases& biases, Json& config) {
    add_flag(biases.qkv, model.qkv_bias, config);
    add_flag(biases.attention, model.attention_bias, config);
    add_flag(biases.mlp, model.bias, config);
    add_flag(biases.norm, model.norm_bias, config);
    add_flag(biases.head, model.head_bias, config);
}

/// The model in the keys of its class.
Json family_config(const ModelShape& model, const HfFamily& family) {
    Json config = Json::object();
    const auto add = [&](std::string_view key, const Json& value) {
        if (!key.empty()) config[std::string(key)] = value;
    };
    add(family.layers, model.layers);
    add(family.hidden, model.hidden);
    add(family.heads, model.heads);
    add(family.groups, model.groups);
    if (!family.groups.empty()) add("head_dim", model.head_dim);
    add(family.ffn, model.ffn);
    add(family.positions, model.max_positions);
    add(family.activation, activation_word(family, model.activation));
    add(family.norm_eps, model.norm_eps);
    add(family.init_std, model.init_std);
    add(family.dropout, model.dropout);
    add(family.qk_norm_key, model.qk_norm != QkNorm::none);
    add_flag(family.parallel_key, model.parallel_residual != ParallelResidual::none, config);
    add_biases(model, family.biases, config);
    if (family.keys.write != nullptr) family.keys.write(model, config);
    if (family.position == PositionEmbedding::rope) add_hf_rope(model, family, config);
    if (!family.experts.empty()) add_hf_experts(model, family, config);
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
    const HfFamily& family = family_of(hf_class_of(model));
    Json config = {{"architectures", {family.architecture}}, {"model_type", family.model_type}};
    config.update(family_config(model, family));
    config["vocab_size"] = model.vocab;
    config["tie_word_embeddings"] = model.tie_embeddings;
    config["bos_token_id"] = or_null(ids.bos);
    config["eos_token_id"] = ends_of(ids);
    // Some classes have one by default, which a small vocabulary may lack.
    config["pad_token_id"] = nullptr;
    config["dtype"] = dtype_word(dtype);
    config["torch_dtype"] = dtype_word(dtype);
    return config;
}

std::string generation_config(const SpecialIds& ids) {
    return to_document({{"bos_token_id", or_null(ids.bos)}, {"eos_token_id", ends_of(ids)}});
}

}  // namespace gptrain
