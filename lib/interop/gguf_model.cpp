#include "interop/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <type_traits>
#include <variant>

#include "base/error.h"
#include "base/rope.h"
#include "interop/gguf_architecture.h"
#include "interop/gguf_experts.h"
#include "interop/gguf_families.h"

namespace gptrain {
namespace {

std::string key_of(HfClass hf_class, std::string_view name) {
    return text(gguf_architecture_of(hf_class), ".", name);
}

std::string_view eps_name(const ModelShape& model) {
    const bool rms = model.normalization == Normalization::rmsnorm;
    return rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
}

constexpr std::string_view architecture_key = "general.architecture";
constexpr std::string_view scaling_name = "rope.scaling.type";

/// Of llama3 the file has a tensor instead (gguf_rope_factors).
bool has_scaling(const ModelShape& model) {
    return model.rope_scaling && model.rope_scaling->kind != RopeScalingKind::llama3;
}

/// The factor to store: llama.cpp multiplies it by its default factor.
double attention_factor(const RopeScaling& yarn) {
    return *yarn.attention_factor / (0.1 * std::log(yarn.factor) + 1);
}

/// The width of an mlp. Of a class that has none, that of an expert.
std::int64_t feed_forward(const ModelShape& model, HfClass hf_class) {
    return only_experts(hf_class) ? model.experts->ffn_hidden_size : model.ffn;
}

/// Calls `keys` with the name and the value of each setting of the model: a size (int64), a number
/// (double), a flag (bool) or a text.
void visit_settings(const ModelShape& model, const auto& keys) {
    const HfClass hf_class = hf_class_of(model);
    keys("vocab_size", model.vocab);
    keys("context_length", gguf_context(model));
    keys("embedding_length", model.hidden);
    keys("block_count", model.layers);
    keys("feed_forward_length", feed_forward(model, hf_class));
    keys("attention.head_count", model.heads);
    keys("attention.head_count_kv", model.groups);
    keys("attention.key_length", model.head_dim);
    keys("attention.value_length", model.head_dim);
    keys(eps_name(model), model.norm_eps);
    if (model.experts) {
        for (const auto& [name, setting] : gguf_expert_settings(model, hf_class))
            std::visit([&, key = name](const auto& value) { keys(key, value); }, setting);
    }
    if (has_gguf_windows(hf_class)) {
        keys("attention.sliding_window",
             has_windows(model) ? *model.sliding_window : model.max_positions);
    }
    if (model.attention_softcap) keys("attn_logit_softcapping", *model.attention_softcap);
    if (model.logit_softcap) keys("final_logit_softcapping", *model.logit_softcap);
    if (hf_class == HfClass::cohere || hf_class == HfClass::cohere2) keys("logit_scale", 1.0);
    if (hf_class == HfClass::stablelm || hf_class == HfClass::gpt_neox)
        keys("use_parallel_residual", model.parallel_residual != ParallelResidual::none);
    if (model.position_embedding != PositionEmbedding::rope) return;
    keys("rope.dimension_count", model.rotary_dims());
    keys("rope.freq_base", model.rope_theta);
    if (!has_scaling(model)) return;
    const RopeScaling& scaling = *model.rope_scaling;
    keys(scaling_name, name_of(scaling.kind));
    keys("rope.scaling.factor", scaling.factor);
    if (scaling.kind == RopeScalingKind::linear) return;
    keys("rope.scaling.original_context_length", scaling.original_max_position_embeddings);
    if (scaling.attention_factor) keys("rope.scaling.attn_factor", attention_factor(scaling));
}

void check_same(std::string_view key, const auto& written, const auto& read) {
    GPTRAIN_CHECK(read, key, " was not read back");
    GPTRAIN_CHECK(*read == written, key, " ", written, " was read back as ", *read);
}

}  // namespace

void check_gguf_model(const ModelShape& model) {
    const HfClass hf_class = hf_class_of(model);
    check_gguf_family(model, hf_class);
    if (model.experts) check_gguf_experts(model, hf_class);
    if (!model.rope_scaling) return;
    const RopeScaling& scaling = *model.rope_scaling;
    if (scaling.kind == RopeScalingKind::llama3 && !is_llama(hf_class))
        no_gguf_model(hf_class, "model.rope_scaling of type llama3");
    const RopeScaling usual;
    if (scaling.kind == RopeScalingKind::yarn &&
        (scaling.beta_fast != usual.beta_fast || scaling.beta_slow != usual.beta_slow)) {
        no_gguf_model(hf_class, "model.rope_scaling with beta_fast ", scaling.beta_fast,
                      " and beta_slow ", scaling.beta_slow, ", only with ", usual.beta_fast,
                      " and ", usual.beta_slow);
    }
}

std::int64_t gguf_context(const ModelShape& model) {
    const bool cut = has_windows(model) && !keeps_gguf_windows(model, hf_class_of(model));
    return cut ? std::min(model.max_positions, *model.sliding_window) : model.max_positions;
}

void add_gguf_model(const ModelShape& model, GgufMetadata& to) {
    const HfClass hf_class = hf_class_of(model);
    to.add_text(architecture_key, gguf_architecture_of(hf_class));
    visit_settings(model, [&](std::string_view name, const auto& value) {
        using Value = std::decay_t<decltype(value)>;
        const std::string key = key_of(hf_class, name);
        if constexpr (std::is_same_v<Value, std::int64_t>) to.add_size(key, value);
        if constexpr (std::is_same_v<Value, double>) to.add_number(key, value);
        if constexpr (std::is_same_v<Value, bool>) to.add_flag(key, value);
        if constexpr (std::is_same_v<Value, std::string_view>) to.add_text(key, value);
    });
}

void check_gguf_settings(const GgufFile& file, const ModelShape& model) {
    const HfClass hf_class = hf_class_of(model);
    check_same(architecture_key, gguf_architecture_of(hf_class), file.find_text(architecture_key));
    visit_settings(model, [&](std::string_view name, const auto& value) {
        using Value = std::decay_t<decltype(value)>;
        const std::string key = key_of(hf_class, name);
        if constexpr (std::is_same_v<Value, std::int64_t>)
            check_same(key, value, file.find_size(key));
        if constexpr (std::is_same_v<Value, double>)
            check_same(key, static_cast<float>(value), file.find_number(key));
        if constexpr (std::is_same_v<Value, bool>) check_same(key, value, file.find_flag(key));
        if constexpr (std::is_same_v<Value, std::string_view>)
            check_same(key, value, file.find_text(key));
    });
    const std::string scaling = key_of(hf_class, scaling_name);
    GPTRAIN_CHECK(has_scaling(model) || !file.find_text(scaling), scaling, " was read back");
    const std::vector<float> factors = gguf_rope_factors(model);
    if (factors.empty()) return;
    GPTRAIN_CHECK(std::ranges::equal(file.tensor(gguf_rope_factors_name).bytes,
                                     std::as_bytes(std::span(factors))),
                  gguf_rope_factors_name, " was not read back as it was written");
}

std::vector<float> gguf_rope_factors(const ModelShape& model) {
    std::vector<float> factors;
    if (!model.rope_scaling || model.rope_scaling->kind != RopeScalingKind::llama3) return factors;
    const RopeAngles plain(model.rope_theta, model.head_dim, std::nullopt);
    const RopeAngles scaled(model.rope_theta, model.head_dim, model.rope_scaling);
    for (std::int64_t i = 0; i < model.head_dim / 2; ++i)
        factors.push_back(static_cast<float>(plain.frequency(i) / scaled.frequency(i)));
    return factors;
}

}  // namespace gptrain
