#include "interop/tensor_names.h"

namespace gptrain {
namespace hf_names {

/// Llama, and most that came after it.
constexpr TensorNames llama = {.embedding = "model.embed_tokens",
                               .block = "model.layers.",
                               .ln_1 = "input_layernorm",
                               .q = "self_attn.q_proj",
                               .k = "self_attn.k_proj",
                               .v = "self_attn.v_proj",
                               .q_norm = "self_attn.q_norm",
                               .k_norm = "self_attn.k_norm",
                               .attn_proj = "self_attn.o_proj",
                               .sinks = "self_attn.sinks",
                               .ln_2 = "post_attention_layernorm",
                               .fc = "mlp.up_proj",
                               .gate = "mlp.gate_proj",
                               .mlp_proj = "mlp.down_proj",
                               .ln_f = "model.norm",
                               .head = "lm_head"};

constexpr TensorNames gpt2 = {.embedding = "transformer.wte",
                              .positions = "transformer.wpe",
                              .block = "transformer.h.",
                              .ln_1 = "ln_1",
                              .q = "attn.c_attn",
                              .attn_proj = "attn.c_proj",
                              .ln_2 = "ln_2",
                              .fc = "mlp.c_fc",
                              .mlp_proj = "mlp.c_proj",
                              .ln_f = "transformer.ln_f",
                              .head = "lm_head",
                              .qkv = QkvLayout::stacked,
                              .biases = file_biases,
                              .transposes = true};

constexpr TensorNames opt = {.embedding = "model.decoder.embed_tokens",
                             .positions = "model.decoder.embed_positions",
                             .block = "model.decoder.layers.",
                             .ln_1 = "self_attn_layer_norm",
                             .q = "self_attn.q_proj",
                             .k = "self_attn.k_proj",
                             .v = "self_attn.v_proj",
                             .attn_proj = "self_attn.out_proj",
                             .ln_2 = "final_layer_norm",
                             .fc = "fc1",
                             .mlp_proj = "fc2",
                             .ln_f = "model.decoder.final_layer_norm",
                             .head = "lm_head",
                             .biases = file_norm_biases,
                             .spare_positions = 2};

constexpr TensorNames gptj = {.embedding = "transformer.wte",
                              .block = "transformer.h.",
                              .ln_1 = "ln_1",
                              .q = "attn.q_proj",
                              .k = "attn.k_proj",
                              .v = "attn.v_proj",
                              .attn_proj = "attn.out_proj",
                              .fc = "mlp.fc_in",
                              .mlp_proj = "mlp.fc_out",
                              .ln_f = "transformer.ln_f",
                              .head = "lm_head",
                              .biases = {.mlp = true, .norm = true, .head = true},
                              .pairs_rows = true};

constexpr TensorNames gpt_neox = {.embedding = "gpt_neox.embed_in",
                                  .block = "gpt_neox.layers.",
                                  .ln_1 = "input_layernorm",
                                  .q = "attention.query_key_value",
                                  .attn_proj = "attention.dense",
                                  .ln_2 = "post_attention_layernorm",
                                  .fc = "mlp.dense_h_to_4h",
                                  .mlp_proj = "mlp.dense_4h_to_h",
                                  .ln_f = "gpt_neox.final_layer_norm",
                                  .head = "embed_out",
                                  .qkv = QkvLayout::by_group,
                                  .biases = {.mlp = true, .norm = true}};

/// BLOOM, and Falcon, which took its names.
constexpr TensorNames bloom = {.embedding = "transformer.word_embeddings",
                               .embedding_norm = "transformer.word_embeddings_layernorm",
                               .block = "transformer.h.",
                               .ln_1 = "input_layernorm",
                               .q = "self_attention.query_key_value",
                               .attn_proj = "self_attention.dense",
                               .ln_2 = "post_attention_layernorm",
                               .fc = "mlp.dense_h_to_4h",
                               .mlp_proj = "mlp.dense_4h_to_h",
                               .ln_f = "transformer.ln_f",
                               .head = "lm_head",
                               .qkv = QkvLayout::by_group,
                               .biases = file_biases};

/// The names of another family with this change.
template <class Change>
constexpr TensorNames changed(TensorNames names, Change change) {
    change(names);
    return names;
}

constexpr TensorNames starcoder2 = changed(llama, [](TensorNames& names) {
    names.fc = "mlp.c_fc";
    names.mlp_proj = "mlp.c_proj";
    names.biases = file_norm_biases;
});
constexpr TensorNames with_norm_biases =
    changed(llama, [](TensorNames& names) { names.biases = file_norm_biases; });
constexpr TensorNames olmo2 = changed(llama, [](TensorNames& names) {
    names.ln_1 = "post_attention_layernorm";
    names.ln_2 = "post_feedforward_layernorm";
});
constexpr TensorNames phi3 = changed(llama, [](TensorNames& names) {
    names.q = "self_attn.qkv_proj";
    names.gate = "mlp.gate_up_proj";
    names.qkv = QkvLayout::stacked;
    names.stacks_gate = true;
});
constexpr TensorNames phi = changed(llama, [](TensorNames& names) {
    names.attn_proj = "self_attn.dense";
    names.fc = "mlp.fc1";
    names.mlp_proj = "mlp.fc2";
    names.ln_f = "model.final_layernorm";
    names.biases = file_biases;
    names.biases.head = true;
});
constexpr TensorNames gemma = changed(llama, [](TensorNames& names) { names.norms_less_1 = true; });
constexpr TensorNames gemma2 = changed(gemma, [](TensorNames& names) {
    names.ln_1_post = "post_attention_layernorm";
    names.ln_2 = "pre_feedforward_layernorm";
    names.ln_2_post = "post_feedforward_layernorm";
});
constexpr TensorNames nemotron =
    changed(gemma, [](TensorNames& names) { names.biases = file_norm_biases; });
constexpr TensorNames glm = changed(llama, [](TensorNames& names) {
    names.gate = "mlp.gate_up_proj";
    names.stacks_gate = true;
    names.pairs_rows = true;
});
constexpr TensorNames glm4 = changed(glm, [](TensorNames& names) {
    names.ln_1_post = "post_self_attn_layernorm";
    names.ln_2_post = "post_mlp_layernorm";
});
constexpr TensorNames cohere = changed(llama, [](TensorNames& names) { names.pairs_rows = true; });
constexpr TensorNames gpt_bigcode = changed(gpt2, [](TensorNames& names) {
    names.qkv = QkvLayout::by_group;
    names.transposes = false;
});
constexpr TensorNames falcon =
    changed(bloom, [](TensorNames& names) { names.biases = file_norm_biases; });

}  // namespace hf_names

TensorNames hf_tensor_names(const ModelShape& model, HfClass hf_class) {
    using namespace hf_names;
    switch (hf_class) {
        case HfClass::gpt2: return gpt2;
        case HfClass::stablelm: return with_norm_biases;
        case HfClass::starcoder2: return starcoder2;
        case HfClass::olmo2: return olmo2;
        case HfClass::phi3: return phi3;
        case HfClass::phi: return phi;
        case HfClass::gpt_neox: return gpt_neox;
        case HfClass::gemma: return gemma;
        case HfClass::gemma2:
        case HfClass::gemma3: return gemma2;
        case HfClass::nemotron: return nemotron;
        case HfClass::falcon:
            return changed(falcon, [&](TensorNames& names) {
                if (model.parallel_residual != ParallelResidual::two_norms) return;
                names.ln_1 = "ln_attn";
                names.ln_2 = "ln_mlp";
            });
        case HfClass::bloom: return bloom;
        case HfClass::gptj: return gptj;
        case HfClass::opt: return opt;
        case HfClass::glm: return glm;
        case HfClass::glm4: return glm4;
        case HfClass::cohere:
        case HfClass::cohere2: return cohere;
        case HfClass::gpt_bigcode: return gpt_bigcode;
        default: return llama;
    }
}

}  // namespace gptrain
