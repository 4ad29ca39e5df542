// Rows of hf_families.cpp of which one follows from another.
#pragma once

#include "interop/hf_family_keys.h"

namespace gptrain::hf_rows {

constexpr auto learned = PositionEmbedding::learned;
constexpr auto layernorm = Normalization::layernorm;
constexpr HfFamily glm = {.hf_class = HfClass::glm,
                          .model_type = "glm",
                          .architecture = "GlmForCausalLM",
                          .rotary = "partial_rotary_factor",
                          .default_eps = 1.5625e-7,
                          .default_rotary = 0.5,
                          .default_head_dim = 128,
                          .biases = {.qkv = {.value = true, .key = "attention_bias"}}};

/// The same with norms on both sides of the halves.
constexpr HfFamily glm4 = [] {
    HfFamily row = glm;
    row.hf_class = HfClass::glm4;
    row.model_type = "glm4";
    row.architecture = "Glm4ForCausalLM";
    row.placement = NormPlacement::both;
    return row;
}();

constexpr HfFamily cohere = {
    .hf_class = HfClass::cohere,
    .model_type = "cohere",
    .architecture = "CohereForCausalLM",
    .norm_eps = "layer_norm_eps",
    .default_eps = 1e-5,
    .default_theta = 500000.0,
    .tied = true,
    .normalization = layernorm,
    .parallel = ParallelResidual::one_norm,
    .biases = {.qkv = attention_bias, .attention = attention_bias, .norm = never},
    .any_head_dim = false,
    .keys = cohere_keys};

/// The same with windows.
constexpr HfFamily cohere2 = [] {
    HfFamily row = cohere;
    row.hf_class = HfClass::cohere2;
    row.model_type = "cohere2";
    row.architecture = "Cohere2ForCausalLM";
    row.default_theta = 10000.0;
    row.windows = HfWindows::some;
    row.unrotated = HfUnrotated::unwindowed;
    row.keys = cohere2_keys;
    return row;
}();

}  // namespace gptrain::hf_rows
