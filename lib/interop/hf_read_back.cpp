#include "interop/hf_read_back.h"

#include <string_view>

#include "base/error.h"
#include "interop/hf_classes.h"
#include "interop/hf_expert_config.h"
#include "spec/spec_json.h"

namespace gptrain {
namespace {

/// Only what the kind uses.
RopeScaling used_scaling(const RopeScaling& scaling) {
    RopeScaling used = {.kind = scaling.kind, .factor = scaling.factor};
    if (scaling.kind == RopeScalingKind::linear) return used;
    used.original_max_position_embeddings = scaling.original_max_position_embeddings;
    if (scaling.kind == RopeScalingKind::llama3) {
        used.low_freq_factor = scaling.low_freq_factor;
        used.high_freq_factor = scaling.high_freq_factor;
    } else {
        used.beta_fast = scaling.beta_fast;
        used.beta_slow = scaling.beta_slow;
        used.attention_factor = scaling.attention_factor;
    }
    return used;
}

/// Biases that a class has in any case are written as 0 where the model has none.
void add_written_biases(const HfBiases& biases, ModelShape& model) {
    const auto add = [](HfFlag flag, bool& ours) {
        ours = ours || (flag.key.empty() && flag.value);
    };
    add(biases.qkv, model.qkv_bias);
    add(biases.attention, model.attention_bias);
    add(biases.mlp, model.bias);
    add(biases.norm, model.norm_bias);
    add(biases.head, model.head_bias);
    // Only LayerNorm has biases.
    if (model.normalization != Normalization::layernorm) model.norm_bias = false;
}

void simplify_rotations(ModelShape& model) {
    const ModelShape plain;
    if (model.position_embedding != PositionEmbedding::rope) {
        model.rope_theta = plain.rope_theta;
        model.window_rope_theta.reset();
        model.rotary_fraction = plain.rotary_fraction;
        return;
    }
    if (model.rope_scaling) model.rope_scaling = used_scaling(*model.rope_scaling);
    if (!model.sliding_window ||
        (model.window_rope_theta == model.rope_theta && !model.rope_scaling))
        model.window_rope_theta.reset();
    model.rotary_fraction =
        static_cast<double>(model.rotary_dims()) / static_cast<double>(model.head_dim);
}

/// Without what is not read, or is written otherwise.
ModelShape readable(ModelShape model, HfClass hf_class) {
    const ModelShape plain;
    const HfFamily& family = family_of(hf_class);
    model.dropout = plain.dropout;
    if (!has_windows(model)) {
        model.sliding_window.reset();
        model.full_attention_layers.clear();
    }
    simplify_rotations(model);
    add_written_biases(family.biases, model);
    if (family.scaled_embedding) model.embedding_scale = hf_embedding_scale(model.hidden);
    if (model.experts) model.experts = readable_hf_experts(model, hf_class);
    if (only_experts(hf_class)) model.ffn = model.experts->ffn_hidden_size;
    return model;
}

void check_same(const ExpertsSpec& ours, const ExpertsSpec& theirs) {
    const auto check = [](std::string_view key, const auto& written, const auto& read) {
        GPTRAIN_CHECK(written == read, "model.experts.", key, " ", written, " was read back as ",
                      read);
    };
    check("count", ours.count, theirs.count);
    check("per_token", ours.per_token, theirs.per_token);
    check("ffn_hidden_size", ours.ffn_hidden_size, theirs.ffn_hidden_size);
    check("router.score", name_of(ours.router.score), name_of(theirs.router.score));
    check("router.normalize", ours.router.normalize, theirs.router.normalize);
    check("router.scale", ours.router.scale, theirs.router.scale);
    GPTRAIN_CHECK(ours == theirs, "model.experts was not read back as it was written");
}

void check_same(const ModelShape& ours, const ModelShape& theirs) {
    const auto check = [](std::string_view key, const auto& written, const auto& read) {
        GPTRAIN_CHECK(written == read, "model.", key, " ", written, " was read back as ", read);
    };
    check("num_layers", ours.layers, theirs.layers);
    check("hidden_size", ours.hidden, theirs.hidden);
    check("num_attention_heads", ours.heads, theirs.heads);
    check("num_query_groups", ours.groups, theirs.groups);
    check("head_dim", ours.head_dim, theirs.head_dim);
    check("ffn_hidden_size", ours.ffn, theirs.ffn);
    check("vocab_size", ours.vocab, theirs.vocab);
    check("max_position_embeddings", ours.max_positions, theirs.max_positions);
    check("position_embedding", name_of(ours.position_embedding),
          name_of(theirs.position_embedding));
    check("rope_theta", ours.rope_theta, theirs.rope_theta);
    const Json settings = attention_settings(ours);
    const Json their_settings = attention_settings(theirs);
    for (const auto& [key, value] : settings.items())
        check(key, to_line(value), to_line(their_settings.at(key)));
    check("qk_norm", name_of(ours.qk_norm), name_of(theirs.qk_norm));
    check("norm_placement", name_of(ours.norm_placement), name_of(theirs.norm_placement));
    check("parallel_residual", name_of(ours.parallel_residual), name_of(theirs.parallel_residual));
    check("rotary_fraction", ours.rotary_fraction, theirs.rotary_fraction);
    check("embedding_scale", ours.embedding_scale, theirs.embedding_scale);
    check("normalization", name_of(ours.normalization), name_of(theirs.normalization));
    check("norm_eps", ours.norm_eps, theirs.norm_eps);
    check("activation", name_of(ours.activation), name_of(theirs.activation));
    check("bias", ours.bias, theirs.bias);
    check("qkv_bias", ours.qkv_bias, theirs.qkv_bias);
    check("attention_bias", ours.attention_bias, theirs.attention_bias);
    check("norm_bias", ours.norm_bias, theirs.norm_bias);
    check("head_bias", ours.head_bias, theirs.head_bias);
    check("experts", ours.experts.has_value(), theirs.experts.has_value());
    if (ours.experts) check_same(*ours.experts, *theirs.experts);
    check("tie_embeddings", ours.tie_embeddings, theirs.tie_embeddings);
    check("init_std", ours.init_std, theirs.init_std);
    GPTRAIN_CHECK(ours == theirs, "the model was not read back as it was written");
}

}  // namespace

void check_read_back(const ModelShape& written, const ModelShape& read, HfClass hf_class) {
    check_same(readable(written, hf_class), readable(read, hf_class));
}

}  // namespace gptrain
