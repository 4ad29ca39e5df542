#include "interop/hf_expert_config.h"

#include <algorithm>
#include <string>
#include <vector>

namespace gptrain {
namespace {

constexpr double glm_bias_rate = 1.0e-3;

/// For each layer, whether it has experts.
using LayerFlags = std::vector<bool>;

LayerFlags layers_with_experts(const ExpertLayers& layers, std::int64_t count) {
    LayerFlags flags(static_cast<std::size_t>(count), false);
    for (const std::int64_t layer : layers.list)
        if (layer >= 0 && layer < count) flags[static_cast<std::size_t>(layer)] = true;
    if (!layers.list.empty()) return flags;
    for (std::int64_t layer = 0; layer < count; ++layer)
        flags[static_cast<std::size_t>(layer)] = layers.has(layer);
    return flags;
}

std::vector<std::int64_t> layers_in(const LayerFlags& flags, bool with_experts) {
    std::vector<std::int64_t> layers;
    for (std::size_t i = 0; i < flags.size(); ++i)
        if (flags[i] == with_experts) layers.push_back(static_cast<std::int64_t>(i));
    return layers;
}

/// Qwen: every decoder_sparse_step-th layer except those of mlp_only_layers.
ExpertLayers read_qwen_layers(const HfMembers& config, std::int64_t count) {
    ExpertLayers layers = {.first_dense = 0, .every = config.size("decoder_sparse_step", 1)};
    LayerFlags flags = layers_with_experts(layers, count);
    if (config.has("mlp_only_layers")) {
        for (const std::int64_t layer :
             JsonReader(config.json(), config.source()).integers("mlp_only_layers")) {
            if (layer < 0 || layer >= count || !flags[static_cast<std::size_t>(layer)]) continue;
            flags[static_cast<std::size_t>(layer)] = false;
            layers.first_dense = std::max(layers.first_dense, layer + 1);
        }
    }
    const std::vector<std::int64_t> list = layers_in(flags, true);
    if (list.empty()) {
        config.refuse(config.has("mlp_only_layers") ? "mlp_only_layers" : "decoder_sparse_step",
                      "no layer has experts");
    }
    if (flags != layers_with_experts(layers, count)) return {.list = list};
    return layers;
}

/// DeepSeek and GLM: all but the first layers.
ExpertLayers read_glm_layers(const HfMembers& config, std::int64_t count) {
    constexpr std::string_view key = "first_k_dense_replace";
    if (!config.has(key)) {
        if (count > 1) return {.first_dense = 1};
        fail(ExitCode::bad_input, config.source(), ": key '", key,
             "' is missing, which means 1; no layer has experts");
    }
    const std::int64_t first = JsonReader(config.json(), config.source()).integer(key);
    if (first < 0) config.refuse(key, "it must be at least 0");
    if (first >= count) config.refuse(key, "no layer has experts");
    return {.first_dense = first};
}

void read_glm(const HfMembers& config, const ModelSpec& model, ExpertsSpec& experts) {
    experts.shared = {
        .ffn_hidden_size = config.size("n_shared_experts", 1) * experts.ffn_hidden_size,
        .gate = false};
    experts.layers = read_glm_layers(config, model.num_layers);
    experts.router = {.score = RouterScore::sigmoid,
                      .normalize = config.flag("norm_topk_prob", true),
                      .scale = config.number("routed_scaling_factor", 1.0)};
    const std::int64_t groups = config.size("n_group", 1);
    if (groups == 1) {
        config.require("topk_group", 1, 1);
    } else {
        experts.router.groups = {.count = groups, .keep = config.size("topk_group", 1)};
    }
    experts.balance.bias_rate = glm_bias_rate;
}

void add_qwen_layers(const ModelShape& model, Json& config) {
    const ExpertLayers& layers = model.experts->layers;
    const LayerFlags flags = layers_with_experts(layers, model.layers);
    const std::int64_t step = layers.list.empty() ? layers.every : 1;
    Json dense = Json::array();
    for (const std::int64_t layer : layers_in(flags, false))
        if ((layer + 1) % step == 0) dense.push_back(layer);
    config["decoder_sparse_step"] = step;
    config["mlp_only_layers"] = std::move(dense);
}

void add_glm(const ModelShape& model, Json& config) {
    const ExpertsSpec& experts = *model.experts;
    const RouterRule rule = experts.rule();
    config["n_shared_experts"] = experts.shared->ffn_hidden_size / experts.ffn_hidden_size;
    config["first_k_dense_replace"] =
        layers_in(layers_with_experts(experts.layers, model.layers), false).size();
    config["n_group"] = rule.groups;
    config["topk_group"] = rule.kept_groups;
    config["norm_topk_prob"] = rule.normalize;
    config["routed_scaling_factor"] = rule.scale;
    config["num_nextn_predict_layers"] = 0;
}

}  // namespace

std::string_view hf_experts_key(const HfMembers& config, const HfFamily& family) {
    constexpr std::string_view other = "num_local_experts";
    return !config.has(family.experts) && config.has(other) ? other : family.experts;
}

void read_hf_experts(const HfMembers& config, const HfFamily& family, ModelSpec& model) {
    ExpertsSpec experts;
    experts.count = config.size(hf_experts_key(config, family));
    experts.per_token = config.size("num_experts_per_tok");
    experts.ffn_hidden_size = config.size(family.expert_ffn);
    experts.balance = {.bias_rate = {}, .aux_weight = 0, .sequence_aux_weight = 0, .z_weight = 0};
    if (family.hf_class == HfClass::glm4_moe) {
        read_glm(config, model, experts);
    } else {
        const double aux_weight = family.hf_class == HfClass::olmoe ? 0.01 : 0.001;
        experts.balance.aux_weight = config.number_from_0("router_aux_loss_coef", aux_weight);
        if (family.hf_class == HfClass::mixtral) {
            config.require("router_jitter_noise", 0.0, 0.0);
        } else if (family.hf_class == HfClass::gpt_oss) {
            experts.bias = experts.router.logit_bias = true;
        } else if (family.hf_class == HfClass::olmoe) {
            experts.router.normalize = config.flag("norm_topk_prob", false);
        } else {
            experts.router.normalize = config.flag("norm_topk_prob", false);
            experts.layers = read_qwen_layers(config, model.num_layers);
        }
    }
    if (family.hf_class == HfClass::qwen2_moe) {
        experts.shared = {.ffn_hidden_size = config.size("shared_expert_intermediate_size"),
                          .gate = true};
    }
    model.experts = std::move(experts);
}

void add_hf_experts(const ModelShape& model, const HfFamily& family, Json& config) {
    const ExpertsSpec& experts = *model.experts;
    config[std::string(family.experts)] = experts.count;
    config["num_experts_per_tok"] = experts.per_token;
    config[std::string(family.expert_ffn)] = experts.ffn_hidden_size;
    if (family.hf_class == HfClass::glm4_moe) return add_glm(model, config);
    config["router_aux_loss_coef"] = experts.balance.aux_weight;
    if (family.hf_class == HfClass::mixtral || family.hf_class == HfClass::gpt_oss) return;
    config["norm_topk_prob"] = experts.router.normalize;
    if (family.hf_class == HfClass::olmoe) return;
    add_qwen_layers(model, config);
    if (family.hf_class == HfClass::qwen2_moe)
        config["shared_expert_intermediate_size"] = experts.shared->ffn_hidden_size;
}

ExpertsSpec readable_hf_experts(const ModelShape& model, HfClass hf_class) {
    ExpertsSpec experts = *model.experts;
    experts.layers = {.list = layers_in(layers_with_experts(experts.layers, model.layers), true)};
    if (experts.router.groups && experts.router.groups->count == 1) experts.router.groups.reset();
    const double aux_weight = experts.balance.aux_weight;
    experts.balance = {};
    experts.load = ExpertsSpec().load;
    experts.upcycling_noise = ExpertsSpec().upcycling_noise;
    if (hf_class != HfClass::glm4_moe) experts.balance.aux_weight = aux_weight;
    return experts;
}

}  // namespace gptrain
