#include "interop/hf_family_keys.h"

#include <algorithm>
#include <cmath>

#include "interop/hf_classes.h"
#include "interop/hf_windows.h"

namespace gptrain::hf_keys {
namespace {

void write_dropouts(const ModelShape& model, Json& config,
                    std::initializer_list<const char*> keys) {
    for (const char* key : keys)
        config[key] = model.dropout;
}

/// Scores divided by anything but the square root of head_dim.
void require_usual_scores(const HfMembers& config, const ModelSpec& model) {
    constexpr std::string_view key = "query_pre_attn_scalar";
    if (config.number(key, 256) == static_cast<double>(*model.head_dim)) return;
    if (!config.has(key)) config.require(key, *model.head_dim, 256);
    config.refuse(key, "gptrain divides scores by the square root of head_dim, which is ",
                  *model.head_dim);
}

std::optional<double> softcap(const HfMembers& config, std::string_view key, double otherwise) {
    if (config.has(key)) return config.number(key, 0);
    return config.json().contains(key) || otherwise == 0 ? std::nullopt : std::optional(otherwise);
}

Json or_null(const std::optional<double>& number) {
    return number ? Json(*number) : Json(nullptr);
}

/// The softcaps that Gemma 2 has without their keys.
constexpr double gemma2_softcaps[] = {50.0, 30.0};

void read_softcaps(const HfMembers& config, ModelSpec& model, double scores, double logits) {
    model.attention_softcap = softcap(config, "attn_logit_softcapping", scores);
    model.logit_softcap = softcap(config, "final_logit_softcapping", logits);
}

}  // namespace

void read_gpt2(const HfMembers& config, ModelSpec&) {
    config.require("scale_attn_weights", true, true);
    config.require("scale_attn_by_inverse_layer_idx", false, false);
    config.require("add_cross_attention", false, false);
}

void write_gpt2(const ModelShape& model, Json& config) {
    config["n_ctx"] = model.max_positions;
    write_dropouts(model, config, {"resid_pdrop", "embd_pdrop"});
}

void read_llama(const HfMembers& config, ModelSpec&) {
    config.require_absent(window_key, "sliding window in this class");
}

/// With layer_types transformers reads a Mistral as a Ministral.
void read_mistral(const HfMembers& config, ModelSpec& model) {
    read_window_size(config, model, 4096);
    if (!model.sliding_window || !config.has(types_key)) return;
    read_layer_types(config, model);
    drop_unused_window(model);
}

void write_mistral(const ModelShape& model, Json& config) {
    config["sliding_window"] = window_of(model);
    if (!unwindowed_layers(model).empty()) config["layer_types"] = layer_types(model);
}

void read_qwen(const HfMembers& config, ModelSpec& model) {
    read_layer_windows(config, model);
}

void write_qwen(const ModelShape& model, Json& config) {
    write_layer_types(model, config);
    config["sliding_window"] = model.sliding_window ? Json(*model.sliding_window) : Json(nullptr);
    config["use_sliding_window"] = model.sliding_window.has_value();
    config["max_window_layers"] = first_windowed(model);
}

void read_stablelm(const HfMembers& config, ModelSpec&) {
    config.require("qk_layernorm", false, false);
}

void write_stablelm(const ModelShape& model, Json& config) {
    config["qk_layernorm"] = false;
    write_dropouts(model, config, {"hidden_dropout"});
}

void read_window(const HfMembers& config, ModelSpec& model) {
    read_window_size(config, model, std::nullopt);
}

void write_window(const ModelShape& model, Json& config) {
    config["sliding_window"] = window_of(model);
}

void write_starcoder2(const ModelShape& model, Json& config) {
    write_window(model, config);
    write_dropouts(model, config, {"residual_dropout", "embedding_dropout"});
}

/// Without layer_types, versions of transformers disagree about the layers with a window.
void read_qwen2_moe(const HfMembers& config, ModelSpec& model) {
    if (config.flag("use_sliding_window", false) && !config.has(types_key))
        config.refuse("use_sliding_window", "gptrain then needs layer_types");
    read_layer_windows(config, model);
}

void read_qwen3_moe(const HfMembers& config, ModelSpec& model) {
    if (config.flag("use_sliding_window", false)) read_window_size(config, model, 4096);
}

void write_qwen3_moe(const ModelShape& model, Json& config) {
    config["use_sliding_window"] = has_windows(model);
    config["sliding_window"] = model.sliding_window ? Json(*model.sliding_window) : Json(nullptr);
}

void read_olmoe(const HfMembers& config, ModelSpec&) {
    config.require_absent("clip_qkv", "limit of q, k and v");
}

void read_gpt_oss(const HfMembers& config, ModelSpec& model) {
    if (!config.has("rope_parameters") && !config.has("rope_scaling")) {
        fail(ExitCode::bad_input, config.source(),
             ": has neither 'rope_parameters' nor 'rope_scaling', which means yarn with "
             "'truncate' false; gptrain supports only true");
    }
    config.require("swiglu_alpha", 1.702, 1.702);
    config.require("swiglu_limit", 7.0, 7.0);
    model.activation = Activation::clamped_swiglu;
    read_window_size(config, model, 128);
    read_pattern(config, model, {}, 2);
}

void write_gpt_oss(const ModelShape& model, Json& config) {
    write_layer_types(model, config);
    config["swiglu_alpha"] = 1.702;
    config["swiglu_limit"] = 7.0;
}

void write_phi3(const ModelShape& model, Json& config) {
    write_window(model, config);
    config["original_max_position_embeddings"] =
        model.rope_scaling && model.rope_scaling->original_max_position_embeddings > 0
            ? model.rope_scaling->original_max_position_embeddings
            : model.max_positions;
    write_dropouts(model, config, {"resid_pdrop", "embd_pdrop"});
}

void read_phi(const HfMembers& config, ModelSpec&) {
    config.require("qk_layernorm", false, false);
}

void write_phi(const ModelShape& model, Json& config) {
    config["qk_layernorm"] = false;
    write_dropouts(model, config, {"resid_pdrop", "embd_pdrop"});
}

void write_gpt_neox(const ModelShape& model, Json& config) {
    write_dropouts(model, config, {"hidden_dropout"});
}

void read_gptj(const HfMembers& config, ModelSpec& model) {
    constexpr std::string_view key = "rotary_dim";
    if (config.json().contains(key) && !config.has(key))
        config.refuse(key, "gptrain needs the number of dims that are rotated");
    const std::int64_t dims = config.size(key, 64);
    if (dims > *model.head_dim) config.refuse(key, "a head has only ", *model.head_dim, " dims");
    model.rotary_fraction = static_cast<double>(dims) / static_cast<double>(*model.head_dim);
}

void write_gptj(const ModelShape& model, Json& config) {
    config["rotary_dim"] = model.rotary_dims();
    write_dropouts(model, config, {"resid_pdrop", "embd_pdrop"});
}

/// Three kinds of blocks: halves one after the other; both from one norm; both from two norms, with
/// groups of heads (the new ones).
void read_falcon(const HfMembers& config, ModelSpec& model) {
    config.require("alibi", false, false);
    const bool is_new = config.flag("new_decoder_architecture", false);
    if (is_new) {
        config.require("parallel_attn", true, true);
        model.num_query_groups = config.size("num_kv_heads", model.num_attention_heads);
        const std::int64_t norms = config.size("num_ln_in_parallel_attn", 2);
        if (norms > 2) config.refuse("num_ln_in_parallel_attn", "gptrain has 1 and 2");
        model.parallel_residual =
            norms == 2 ? ParallelResidual::two_norms : ParallelResidual::one_norm;
        return;
    }
    if (config.size("num_ln_in_parallel_attn", 1) != 1)
        config.refuse("num_ln_in_parallel_attn", "gptrain has 1 without new_decoder_architecture");
    if (config.flag("multi_query", true)) model.num_query_groups = 1;
    if (config.flag("parallel_attn", true)) model.parallel_residual = ParallelResidual::one_norm;
}

void write_falcon(const ModelShape& model, Json& config) {
    const bool parallel = model.parallel_residual != ParallelResidual::none;
    config["alibi"] = false;
    config["new_decoder_architecture"] = parallel;
    config["parallel_attn"] = parallel;
    config["multi_query"] = model.groups == 1;
    config["num_kv_heads"] = model.groups;
    config["num_ln_in_parallel_attn"] =
        parallel ? Json(model.parallel_residual == ParallelResidual::two_norms ? 2 : 1)
                 : Json(nullptr);
    write_dropouts(model, config, {"hidden_dropout"});
}

bool fits_falcon(const ModelShape& model) {
    return model.parallel_residual != ParallelResidual::none || model.groups == 1 ||
           model.groups == model.heads;
}

void read_bloom(const HfMembers& config, ModelSpec&) {
    config.require("apply_residual_connection_post_layernorm", false, false);
    config.require("slow_but_exact", false, false);
}

void write_bloom(const ModelShape& model, Json& config) {
    write_dropouts(model, config, {"hidden_dropout"});
}

void read_opt(const HfMembers& config, ModelSpec& model) {
    config.require("do_layer_norm_before", true, true);
    config.require("_remove_final_layer_norm", false, false);
    config.require("layer_norm_elementwise_affine", true, true);
    config.require("word_embed_proj_dim", model.hidden_size, model.hidden_size);
}

void write_opt(const ModelShape& model, Json& config) {
    config["do_layer_norm_before"] = true;
    config["word_embed_proj_dim"] = model.hidden;
    write_dropouts(model, config, {"dropout"});
}

void read_gpt_bigcode(const HfMembers& config, ModelSpec& model) {
    config.require("scale_attn_weights", true, true);
    config.require("add_cross_attention", false, false);
    if (config.flag("multi_query", true)) model.num_query_groups = 1;
}

void write_gpt_bigcode(const ModelShape& model, Json& config) {
    config["multi_query"] = model.groups == 1;
    write_dropouts(model, config, {"resid_pdrop", "embd_pdrop"});
}

void read_gemma(const HfMembers& config, ModelSpec&) {
    config.require("use_bidirectional_attention", false, false);
}

void read_gemma2(const HfMembers& config, ModelSpec& model) {
    read_gemma(config, model);
    require_usual_scores(config, model);
    read_softcaps(config, model, gemma2_softcaps[0], gemma2_softcaps[1]);
    read_window_size(config, model, 4096);
    read_pattern(config, model, {}, 2);
}

void write_gemma2(const ModelShape& model, Json& config) {
    write_layer_types(model, config);
    config["query_pre_attn_scalar"] = model.head_dim;
    config["attn_logit_softcapping"] = or_null(model.attention_softcap);
    config["final_logit_softcapping"] = or_null(model.logit_softcap);
}

void read_gemma3(const HfMembers& config, ModelSpec& model) {
    read_gemma(config, model);
    require_usual_scores(config, model);
    read_softcaps(config, model, 0, 0);
    read_window_size(config, model, 4096);
    read_pattern(config, model, "sliding_window_pattern", 6);
}

void write_gemma3(const ModelShape& model, Json& config) {
    write_gemma2(model, config);
}

/// Every fourth layer is not rotated, unless no_rope_layers has a 0 for each such layer.
void read_smollm3(const HfMembers& config, ModelSpec& model) {
    constexpr std::string_view key = "no_rope_layers";
    if (config.has(key)) {
        const auto rotated = JsonReader(config.json(), config.source()).integers(key);
        if (std::ssize(rotated) != model.num_layers)
            config.refuse(key, "it needs an entry for each layer");
        for (std::int64_t layer = 0; layer < model.num_layers; ++layer)
            if (rotated[static_cast<std::size_t>(layer)] == 0)
                model.unrotated_layers.push_back(layer);
    } else {
        const std::int64_t every = config.size("no_rope_layer_interval", 4);
        for (std::int64_t layer = every - 1; layer < model.num_layers; layer += every)
            model.unrotated_layers.push_back(layer);
    }
    if (!config.flag("use_sliding_window", false) || !config.has(window_key)) return;
    model.sliding_window = config.size(window_key);
    if (config.has(types_key)) {
        read_layer_types(config, model);
    } else {
        for (std::int64_t layer = 0; layer < model.num_layers; ++layer)
            if (!std::ranges::binary_search(model.unrotated_layers, layer))
                model.full_attention_layers.push_back(layer);
    }
    drop_unused_window(model);
}

void write_smollm3(const ModelShape& model, Json& config) {
    Json rotated = Json::array();
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        rotated.push_back(model.rotates(layer) ? 1 : 0);
    config["no_rope_layers"] = std::move(rotated);
    write_layer_types(model, config);
    config["use_sliding_window"] = has_windows(model);
}

void read_cohere(const HfMembers& config, ModelSpec&) {
    config.require("use_qk_norm", false, false);
}

void write_cohere(const ModelShape&, Json& config) {
    config["use_qk_norm"] = false;
    config["logit_scale"] = 1.0;
}

void read_cohere2(const HfMembers& config, ModelSpec& model) {
    read_window_size(config, model, 4096);
    read_pattern(config, model, "sliding_window_pattern", 4);
    for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
        const bool full = std::ranges::binary_search(model.full_attention_layers, layer);
        if (full || !model.sliding_window) model.unrotated_layers.push_back(layer);
    }
}

void write_cohere2(const ModelShape& model, Json& config) {
    write_layer_types(model, config);
    config["logit_scale"] = 1.0;
}

}  // namespace gptrain::hf_keys
