#include "interop/hf_expert_classes.h"

namespace gptrain {
namespace {

[[noreturn]] void no_class(const auto&... what) {
    no_hf_class("experts with ", what...);
}

void require_block(const ModelShape& model) {
    if (model.position_embedding != PositionEmbedding::rope)
        no_class("model.position_embedding ", name_of(model.position_embedding));
    if (model.normalization != Normalization::rmsnorm)
        no_class("model.normalization ", name_of(model.normalization));
    if (model.bias) no_class("model.bias true");
}

/// Error (usage) if the model has experts that only gpt-oss has.
void require_plain_experts(const ModelShape& model) {
    if (model.activation != Activation::swiglu)
        no_class("model.activation ", name_of(model.activation));
    if (model.experts->bias) no_class("model.experts.bias true");
    if (model.experts->router.logit_bias) no_class("model.experts.router.logit_bias true");
}

/// Layers with a window.
std::int64_t windows(const ModelShape& model) {
    std::int64_t count = 0;
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        count += model.has_window(layer) ? 1 : 0;
    return count;
}

HfClass gpt_oss_class(const ModelShape& model) {
    const ExpertsSpec& experts = *model.experts;
    const auto none = [](const auto&... what) {
        no_class(what..., " and model.attention_sinks true");
    };
    if (model.activation != Activation::clamped_swiglu)
        none("model.activation ", name_of(model.activation));
    if (!experts.bias) none("model.experts.bias false");
    if (!experts.router.logit_bias) none("model.experts.router.logit_bias false");
    if (!experts.router.normalize) none("model.experts.router.normalize false");
    if (experts.shared) none("model.experts.shared");
    if (model.expert_layers(model.layers) < model.layers)
        none("model.experts.layers that leave out a layer");
    return HfClass::gpt_oss;
}

HfClass softmax_class(const ModelShape& model) {
    const ExpertsSpec& experts = *model.experts;
    const auto none = [](const auto&... what) {
        no_class(what..., " and model.experts.router.score softmax");
    };
    if (experts.router.scale != 1) none("model.experts.router.scale ", experts.router.scale);
    if (experts.router.groups) none("model.experts.router.groups");
    if (experts.balance.bias_rate)
        none("a bias of the choice (model.experts.balance.bias_rate is not none)");
    const bool has_qk_norm = model.qk_norm != QkNorm::none;
    if (model.attention_sinks) return gpt_oss_class(model);
    require_plain_experts(model);
    if (experts.shared) {
        if (!experts.shared->gate) none("model.experts.shared.gate false");
        if (has_qk_norm) none("model.experts.shared, model.qk_norm ", name_of(model.qk_norm));
        return HfClass::qwen2_moe;
    }
    if (windows(model) > 0 && windows(model) < model.layers)
        none("model.full_attention_layers, without model.experts.shared,");
    if (model.qkv_bias && !model.attention_bias)
        none("model.qkv_bias true, without model.experts.shared and model.attention_bias,");
    if (model.qk_norm == QkNorm::head) return HfClass::qwen3_moe;
    const auto only_qwen = [&](const auto&... what) {
        none(what..., ", without model.experts.shared and model.qk_norm");
    };
    if (model.expert_layers(model.layers) < model.layers)
        only_qwen("model.experts.layers that leave out a layer");
    if (model.qk_norm == QkNorm::all) return HfClass::olmoe;
    if (model.qkv_bias) none("model.qkv_bias true, without model.experts.shared,");
    if (!experts.router.normalize) only_qwen("model.experts.router.normalize false");
    return HfClass::mixtral;
}

HfClass sigmoid_class(const ModelShape& model) {
    const ExpertsSpec& experts = *model.experts;
    const auto none = [](const auto&... what) {
        no_class(what..., " and model.experts.router.score sigmoid");
    };
    require_plain_experts(model);
    if (windows(model) > 0) none("model.sliding_window ", *model.sliding_window);
    if (!experts.shared) none("no model.experts.shared");
    if (experts.shared->gate) none("model.experts.shared.gate true");
    if (experts.shared->ffn_hidden_size % experts.ffn_hidden_size != 0) {
        none("model.experts.shared.ffn_hidden_size ", experts.shared->ffn_hidden_size,
             ", no multiple of model.experts.ffn_hidden_size ", experts.ffn_hidden_size, ",");
    }
    if (experts.router.groups && experts.router.groups->count > 1 &&
        experts.count < 2 * experts.router.groups->count) {
        none("model.experts.router.groups of a single expert");
    }
    // The layers without experts have to be the first ones.
    const std::int64_t dense = model.layers - model.expert_layers(model.layers);
    for (std::int64_t layer = dense; layer < model.layers; ++layer) {
        if (!model.has_experts(layer))
            none("model.experts.layers that leave out a layer after one with experts");
    }
    return HfClass::glm4_moe;
}

}  // namespace

HfClass hf_class_with_experts(const ModelShape& model) {
    require_block(model);
    return model.experts->router.score == RouterScore::softmax ? softmax_class(model)
                                                               : sigmoid_class(model);
}

}  // namespace gptrain
