#include "interop/hf_classes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "interop/hf_expert_classes.h"

namespace gptrain {
namespace {

/// How well a class computes a model.
enum class Fit {
    none,
    sizes,  ///< but for its sizes
    zeros,  ///< with biases of 0 that the model has not
    exact,
};

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

constexpr std::array tanh_gelus = {"gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh",
                                   "gelu_python_tanh"};
constexpr std::array erf_gelus = {"gelu", "gelu_python"};

bool is_any(std::string_view word, const auto& words) {
    return std::ranges::find(words, word) != words.end();
}

struct Bias {
    HfFlag flag;
    bool ours;
};

std::array<Bias, 5> biases_of(const HfFamily& family, const ModelShape& model) {
    const bool layernorm = model.normalization == Normalization::layernorm;
    const HfBiases& biases = family.biases;
    // The norms of the other kind have none.
    const HfFlag norm = layernorm ? biases.norm : HfFlag{};
    return {{{biases.qkv, model.qkv_bias},
             {biases.attention, model.attention_bias},
             // An expert has its own.
             {model.experts ? HfFlag{.value = model.bias} : biases.mlp, model.bias},
             {norm, layernorm && model.norm_bias},
             {biases.head, model.head_bias}}};
}

Fit fit_of_biases(const HfFamily& family, const ModelShape& model) {
    Fit fit = Fit::exact;
    const auto biases = biases_of(family, model);
    for (const auto& [flag, ours] : biases) {
        if (flag.key.empty()) {
            if (ours && !flag.value) return Fit::none;
            if (!ours && flag.value) fit = Fit::zeros;
        }
        for (const auto& [other, others] : biases)
            if (!flag.key.empty() && other.key == flag.key && ours != others) return Fit::none;
    }
    return fit;
}

/// `windows`: whether the model has any.
bool fits_windows(const HfFamily& family, const ModelShape& model, bool windows) {
    switch (family.windows) {
        case HfWindows::none: return !windows;
        case HfWindows::all: return !windows || unwindowed_layers(model).empty();
        case HfWindows::some: return true;
    }
    return false;
}

bool fits_unrotated(const HfFamily& family, const ModelShape& model) {
    switch (family.unrotated) {
        case HfUnrotated::none: return model.unrotated_layers.empty();
        case HfUnrotated::some: return true;
        case HfUnrotated::unwindowed: return model.unrotated_layers == unwindowed_layers(model);
    }
    return false;
}

bool fits_positions(const HfFamily& family, const ModelShape& model, bool windows) {
    if (model.position_embedding != family.position) return false;
    if (family.position != PositionEmbedding::rope) return !windows;
    return (!family.rotary.empty() || family.theta.empty() || model.rotary_fraction == 1) &&
           (!family.theta.empty() ||
            (model.rope_theta == family.default_theta && !model.rope_scaling)) &&
           (family.two_thetas || !model.window_rope_theta || !windows) &&
           fits_windows(family, model, windows) && fits_unrotated(family, model);
}

bool fits_block(const HfFamily& family, const ModelShape& model) {
    const ParallelResidual parallel = model.parallel_residual;
    const bool sequential = parallel == ParallelResidual::none && !family.parallel_key.key.empty();
    const QkNorm qk_norm = model.qk_norm;
    return model.normalization == family.normalization &&
           model.norm_placement == family.placement &&
           (family.any_parallel || parallel == family.parallel || sequential) &&
           (qk_norm == family.qk_norm ||
            (qk_norm == QkNorm::none && !family.qk_norm_key.empty())) &&
           !activation_word(family, model.activation).empty() &&
           model.attention_sinks == family.sinks && model.embedding_norm == family.embedding_norm &&
           (family.softcaps || (!model.attention_softcap && !model.logit_softcap));
}

/// The words are about equal, because a spec may have the factor with few digits.
bool fits_embedding(const HfFamily& family, const ModelShape& model) {
    const double scale = family.scaled_embedding ? hf_embedding_scale(model.hidden) : 1;
    return std::abs(model.embedding_scale / scale - 1) < 1e-7;
}

bool fits_groups(const HfFamily& family, const ModelShape& model) {
    switch (family.grouping) {
        case HfHeads::grouped: return true;
        case HfHeads::ungrouped: return model.groups == model.heads;
        case HfHeads::extremes: return model.groups == model.heads || model.groups == 1;
    }
    return false;
}

bool fits_head_dim(const HfFamily& family, const ModelShape& model) {
    return family.any_head_dim || model.heads * model.head_dim == model.hidden;
}

bool fits_sizes(const HfFamily& family, const ModelShape& model) {
    return fits_groups(family, model) && fits_head_dim(family, model) &&
           (!family.ffn.empty() || model.ffn == 4 * model.hidden) &&
           (!family.norm_eps.empty() || model.norm_eps == family.default_eps) &&
           (family.keys.fits == nullptr || family.keys.fits(model));
}

Fit fit_of(const HfFamily& family, const ModelShape& model, bool windows) {
    if (model.experts.has_value() == family.experts.empty()) return Fit::none;
    if (!fits_block(family, model) || !fits_embedding(family, model) ||
        !fits_positions(family, model, windows))
        return Fit::none;
    const Fit biases = fit_of_biases(family, model);
    return biases == Fit::none || fits_sizes(family, model) ? biases : Fit::sizes;
}

/// True if models of the class usually have the activation function, in either form of GELU.
bool is_usual(const HfFamily& family, Activation activation) {
    const auto form = [](Activation any) {
        return any == Activation::gelu_erf ? Activation::gelu : any;
    };
    const auto usual = activation_of(family.activation_word, family.gated);
    return usual && form(*usual) == form(activation);
}

[[noreturn]] void refuse_sizes(const HfFamily& family, const ModelShape& model) {
    if (!fits_groups(family, model)) {
        no_hf_class("this combination with model.num_query_groups ", model.groups,
                    " below model.num_attention_heads ", model.heads, ": ", family.architecture,
                    " has none of these");
    }
    if (!fits_head_dim(family, model)) {
        no_hf_class("this model's model.head_dim ", model.head_dim, ": ", family.architecture,
                    " needs model.hidden_size / model.num_attention_heads");
    }
    if (family.ffn.empty() && model.ffn != 4 * model.hidden) {
        no_hf_class("this model's model.ffn_hidden_size ", model.ffn, ": ", family.architecture,
                    " needs 4 * model.hidden_size");
    }
    no_hf_class("this model's model.norm_eps ", model.norm_eps, ": ", family.architecture, " has ",
                family.default_eps);
}

/// The settings by which classes differ, those that few have only if the model has them.
std::string settings_of(const ModelShape& model) {
    const ModelShape plain;
    const bool window = has_windows(model);
    std::string out =
        text("model.position_embedding ", name_of(model.position_embedding),
             ", model.normalization ", name_of(model.normalization), ", model.activation ",
             name_of(model.activation), ", model.bias ", model.bias, ", model.qkv_bias ",
             model.qkv_bias, ", model.qk_norm ", name_of(model.qk_norm), ", model.sliding_window ",
             window ? text(*model.sliding_window) : "none",
             window && !unwindowed_layers(model).empty() ? " except in model.full_attention_layers"
                                                         : "");
    const auto add = [&](std::string_view key, const auto& value, bool shown) {
        if (shown) out += text(", model.", key, " ", value);
    };
    add("attention_bias", model.attention_bias, model.attention_bias != model.bias);
    add("norm_bias", model.norm_bias,
        model.norm_bias != model.bias && model.normalization == Normalization::layernorm);
    add("head_bias", model.head_bias, model.head_bias);
    add("norm_placement", name_of(model.norm_placement),
        model.norm_placement != plain.norm_placement);
    add("parallel_residual", name_of(model.parallel_residual),
        model.parallel_residual != plain.parallel_residual);
    add("rotary_fraction", model.rotary_fraction, model.rotary_fraction != 1);
    add("unrotated_layers", "that name a layer", !model.unrotated_layers.empty());
    add("rope_theta", "of two kinds", model.window_rope_theta.has_value() && window);
    add("attention_softcap", model.attention_softcap.value_or(0),
        model.attention_softcap.has_value());
    add("logit_softcap", model.logit_softcap.value_or(0), model.logit_softcap.has_value());
    add("attention_sinks", true, model.attention_sinks);
    add("embedding_scale", model.embedding_scale, model.embedding_scale != 1);
    add("embedding_norm", true, model.embedding_norm);
    return out;
}

}  // namespace

const HfFamily& family_of(HfClass hf_class) {
    return *std::ranges::find(hf_families(), hf_class, &HfFamily::hf_class);
}

const HfFamily* find_family(std::string_view model_type) {
    const auto found = std::ranges::find(hf_families(), model_type, &HfFamily::model_type);
    return found == hf_families().end() ? nullptr : &*found;
}

std::optional<Activation> activation_of(std::string_view word, bool gated) {
    using enum Activation;
    const bool tanh = is_any(word, tanh_gelus);
    if (gated) {
        if (word == "silu" || word == "swish") return swiglu;
        return tanh ? std::optional(geglu) : std::nullopt;
    }
    if (tanh) return gelu;
    if (is_any(word, erf_gelus)) return gelu_erf;
    if (word == "relu") return relu;
    return word == "relu2" ? std::optional(relu2) : std::nullopt;
}

std::string_view activation_word(const HfFamily& family, Activation activation) {
    if (family.hf_class == HfClass::gpt_oss)
        return activation == Activation::clamped_swiglu ? family.activation_word : "";
    if (activation_of(family.activation_word, family.gated) == activation)
        return family.activation_word;
    if (family.activation.empty()) return "";
    for (const std::string_view word : {"silu", "gelu_pytorch_tanh", "gelu", "relu", "relu2"})
        if (activation_of(word, family.gated) == activation) return word;
    return "";
}

std::string with_hf_keys(std::string message, HfClass hf_class) {
    const HfFamily& family = family_of(hf_class);
    const std::pair<std::string_view, std::string_view> keys[] = {
        {"model.num_layers", family.layers},
        {"model.hidden_size", family.hidden},
        {"model.num_attention_heads", family.heads},
        {"model.num_query_groups", family.groups.empty() ? "num_kv_heads" : family.groups},
        {"model.ffn_hidden_size", family.ffn},
        {"model.max_position_embeddings", family.positions},
        {"training.seq_length", family.positions},
        {"model.norm_eps", family.norm_eps},
        {"model.init_std", family.init_std},
        {"model.full_attention_layers", "layer_types"},
        {"model.unrotated_layers", "no_rope_layers"},
        {"model.rotary_fraction", family.rotary.empty() ? "rotary_dim" : family.rotary},
        {"model.attention_softcap", "attn_logit_softcapping"},
        {"model.logit_softcap", "final_logit_softcapping"},
        {"model.tie_embeddings", "tie_word_embeddings"},
        {"data.eod_id", "eos_token_id"},
        {"model.experts.count", family.experts},
        {"model.experts.per_token", "num_experts_per_tok"},
        {"model.experts.ffn_hidden_size", family.expert_ffn},
        {"model.experts.shared.ffn_hidden_size",
         hf_class == HfClass::glm4_moe ? "n_shared_experts" : "shared_expert_intermediate_size"},
        {"model.experts.router.groups.count", "n_group"},
        {"model.experts.router.groups.keep", "topk_group"},
        {"model.experts.router.scale", "routed_scaling_factor"},
        {"model.experts.router.normalize", "norm_topk_prob"},
        {"model.experts.balance.aux_weight", "router_aux_loss_coef"},
    };
    for (const auto& [ours, theirs] : keys)
        if (!theirs.empty()) replace_key(message, ours, theirs);
    // config.json has the same names for the other keys, but no section.
    constexpr std::string_view section = "model.";
    for (std::size_t at = message.find(section); at != message.npos; at = message.find(section, at))
        message.erase(at, section.size());
    return message;
}

bool only_experts(HfClass hf_class) {
    const HfFamily& family = family_of(hf_class);
    return !family.experts.empty() && family.expert_ffn == family.ffn;
}

bool has_windows(const ModelShape& model) {
    if (!model.sliding_window) return false;
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        if (model.has_window(layer)) return true;
    return false;
}

std::vector<std::int64_t> unwindowed_layers(const ModelShape& model) {
    std::vector<std::int64_t> layers;
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        if (!model.has_window(layer)) layers.push_back(layer);
    return layers;
}

double hf_embedding_scale(std::int64_t hidden) {
    return std::sqrt(static_cast<double>(hidden));
}

HfClass hf_class_of(const ModelShape& model) {
    const bool windows = has_windows(model);
    if (model.experts) {
        const HfClass hf_class = hf_class_with_experts(model);
        const HfFamily& family = family_of(hf_class);
        switch (fit_of(family, model, windows)) {
            case Fit::none:
                no_hf_class("experts as ", family.architecture, " has them with ",
                            settings_of(model));
            case Fit::sizes: refuse_sizes(family, model);
            default: return hf_class;
        }
    }
    const HfFamily* best = nullptr;
    std::pair<Fit, bool> best_fit = {Fit::none, false};
    for (const HfFamily& family : hf_families()) {
        const std::pair fit = {fit_of(family, model, windows), is_usual(family, model.activation)};
        if (fit.first == Fit::none || fit <= best_fit) continue;
        best = &family;
        best_fit = fit;
    }
    if (best == nullptr) no_hf_class("this combination: ", settings_of(model));
    if (best_fit.first == Fit::sizes) refuse_sizes(*best, model);
    return best->hf_class;
}

}  // namespace gptrain
