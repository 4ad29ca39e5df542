#include "interop/gguf_families.h"

#include <algorithm>
#include <array>

#include "interop/gguf_architecture.h"

namespace gptrain {
namespace {

/// Every n-th layer has no window, or no rotation.
std::int64_t pattern_of(HfClass hf_class) {
    switch (hf_class) {
        case HfClass::gemma2:
        case HfClass::gpt_oss: return 2;
        case HfClass::cohere2:
        case HfClass::smollm3: return 4;
        case HfClass::gemma3: return 6;
        default: return 0;
    }
}

std::vector<std::int64_t> every(std::int64_t step, std::int64_t layers) {
    std::vector<std::int64_t> list;
    if (step == 0) return list;
    for (std::int64_t layer = step - 1; layer < layers; layer += step)
        list.push_back(layer);
    return list;
}

/// Linear layers of these have no biases; others may have them, or always do.
constexpr std::array without_biases = {HfClass::qwen3,  HfClass::qwen3_moe, HfClass::olmo2,
                                       HfClass::olmoe,  HfClass::phi3,      HfClass::gemma,
                                       HfClass::gemma2, HfClass::gemma3,    HfClass::smollm3,
                                       HfClass::falcon, HfClass::cohere,    HfClass::cohere2};
constexpr std::array of_one_width = {HfClass::starcoder2, HfClass::qwen2_moe, HfClass::olmo2,
                                     HfClass::olmoe, HfClass::nemotron};

bool is_one_of(HfClass hf_class, const auto& list) {
    return std::ranges::find(list, hf_class) != list.end();
}

void check_activation(const ModelShape& model, HfClass hf_class) {
    if (model.activation == Activation::gelu_erf) {
        no_gguf_model(hf_class,
                      "model.activation gelu_erf: its GELU is the tanh form; export "
                      "with --format hf");
    }
    const HfFamily& family = family_of(hf_class);
    const Activation usual = activation_of(family.activation_word, family.gated).value();
    const bool same = model.activation == usual ||
                      (usual == Activation::gelu_erf && model.activation == Activation::gelu) ||
                      hf_class == HfClass::gpt_oss;
    if (!same) {
        no_gguf_model(hf_class, "model.activation ", name_of(model.activation),
                      "; export with --format hf");
    }
}

void check_biases(const ModelShape& model, HfClass hf_class) {
    const auto refuse = [&](std::string_view key, bool value) {
        no_gguf_model(hf_class, "model.", key, " ", value, "; export with --format hf");
    };
    if (is_one_of(hf_class, without_biases)) {
        if (model.qkv_bias) refuse("qkv_bias", true);
        if (model.attention_bias) refuse("attention_bias", true);
        if (model.bias) refuse("bias", true);
    }
    if (hf_class == HfClass::gpt_oss && !model.qkv_bias) refuse("qkv_bias", false);
}

void check_softcaps(const ModelShape& model, HfClass hf_class) {
    const auto none = [&](std::string_view key, std::string_view what) {
        no_gguf_model(hf_class, "model.", key, " ", what, "; export with --format hf");
    };
    if (hf_class == HfClass::gemma2) {
        if (!model.attention_softcap) none("attention_softcap", "none");
        if (!model.logit_softcap) none("logit_softcap", "none");
    }
    if (hf_class == HfClass::gemma3) {
        if (model.attention_softcap) none("attention_softcap", text(*model.attention_softcap));
        if (model.logit_softcap) none("logit_softcap", text(*model.logit_softcap));
    }
}

/// Where layers differ in their rotations, their kinds have to be those of the code.
void check_rotations(const ModelShape& model, HfClass hf_class) {
    const std::int64_t step = pattern_of(hf_class);
    const std::vector<std::int64_t> list = every(step, model.layers);
    const auto none = [&](const auto&... what) {
        no_gguf_model(hf_class, what..., "; export with --format hf");
    };
    if (hf_class == HfClass::smollm3 && model.unrotated_layers != list)
        none("model.unrotated_layers but every fourth one");
    if (hf_class == HfClass::smollm3 && has_windows(model))
        none("model.sliding_window ", *model.sliding_window);
    if (hf_class != HfClass::gemma3 && hf_class != HfClass::cohere2) return;
    if (!has_windows(model) || unwindowed_layers(model) != list)
        none("model.full_attention_layers but every ", step, "th one");
    constexpr double code_theta = 10000.0;
    const double theta = model.window_rope_theta.value_or(model.rope_theta);
    if (hf_class == HfClass::gemma3 && theta != code_theta)
        none("model.rope_theta with window ", theta, ", only ", code_theta);
    if (hf_class == HfClass::gemma3 && model.rope_scaling && !model.window_rope_theta)
        none("model.rope_scaling in layers with a window");
}

void check_sizes(const ModelShape& model, HfClass hf_class) {
    // llama.cpp knows Gemma's 27 billion by their layers, and divides their scores by another root.
    const bool large = (hf_class == HfClass::gemma2 && model.layers == 46) ||
                       (hf_class == HfClass::gemma3 && model.layers == 62);
    const bool one_width = large || is_one_of(hf_class, of_one_width);
    if (one_width && model.heads * model.head_dim != model.hidden) {
        no_gguf_model(hf_class, "model.head_dim ", model.head_dim,
                      ": it needs model.hidden_size / model.num_attention_heads");
    }
    if (hf_class == HfClass::olmoe && model.groups != model.heads) {
        no_gguf_model(hf_class, "model.num_query_groups ", model.groups,
                      ": it needs model.num_attention_heads");
    }
    if (hf_class == HfClass::falcon && model.parallel_residual == ParallelResidual::none)
        no_gguf_model(hf_class, "model.parallel_residual none; export with --format hf");
}

}  // namespace

bool has_gguf_windows(HfClass hf_class) {
    return pattern_of(hf_class) > 0 && hf_class != HfClass::smollm3;
}

bool keeps_gguf_windows(const ModelShape& model, HfClass hf_class) {
    return has_gguf_windows(hf_class) &&
           unwindowed_layers(model) == every(pattern_of(hf_class), model.layers);
}

void check_gguf_family(const ModelShape& model, HfClass hf_class) {
    if (gguf_architecture_of(hf_class).empty()) {
        fail(ExitCode::usage, "llama.cpp has no architecture for a model of ",
             family_of(hf_class).architecture, "; export with --format hf");
    }
    check_activation(model, hf_class);
    check_biases(model, hf_class);
    check_softcaps(model, hf_class);
    check_rotations(model, hf_class);
    check_sizes(model, hf_class);
}

}  // namespace gptrain
