#include "interop/gguf_architecture.h"
#include "interop/tensor_names.h"

namespace gptrain {
namespace {

constexpr TensorNames gguf_names = {.embedding = "token_embd",
                                    .positions = "position_embd",
                                    .embedding_norm = "token_embd_norm",
                                    .block = "blk.",
                                    .ln_1 = "attn_norm",
                                    .q = "attn_q",
                                    .k = "attn_k",
                                    .v = "attn_v",
                                    .q_norm = "attn_q_norm",
                                    .k_norm = "attn_k_norm",
                                    .attn_proj = "attn_output",
                                    .sinks = "attn_sinks.weight",
                                    .ln_1_post = "post_attention_norm",
                                    .ln_2 = "ffn_norm",
                                    .ln_2_post = "post_ffw_norm",
                                    .fc = "ffn_up",
                                    .gate = "ffn_gate",
                                    .mlp_proj = "ffn_down",
                                    .ln_f = "output_norm",
                                    .head = "output"};

/// The biases that llama.cpp's files have, and whether they name the head though it is tied.
void set_biases(TensorNames& names, HfClass hf_class) {
    switch (hf_class) {
        case HfClass::phi:
        case HfClass::gpt_neox: names.needs_head = true; [[fallthrough]];
        case HfClass::gpt2:
        case HfClass::bloom:
        case HfClass::gpt_bigcode:
        case HfClass::starcoder2: names.biases = file_biases; break;
        case HfClass::stablelm:
        case HfClass::nemotron: names.needs_head = true; [[fallthrough]];
        case HfClass::falcon: names.biases = file_norm_biases; break;
        case HfClass::qwen2_moe: names.needs_head = true; break;
        default: break;
    }
    if (hf_class == HfClass::phi) names.biases.head = true;
}

}  // namespace

TensorNames gguf_tensor_names(const ModelShape& model, HfClass hf_class) {
    TensorNames names = gguf_names;
    names.pairs_rows = is_llama(hf_class);
    set_biases(names, hf_class);
    const auto stack = [&] {
        names.q = "attn_qkv";
        names.qkv = QkvLayout::stacked;
    };
    // The gate and fc are one tensor.
    const auto stack_gate = [&] {
        names.gate = "ffn_up";
        names.stacks_gate = true;
    };
    switch (hf_class) {
        case HfClass::gpt2:
        case HfClass::bloom:
        case HfClass::gpt_bigcode:
        case HfClass::gpt_neox: stack(); break;
        case HfClass::gpt_oss:
        case HfClass::glm4_moe: names.ln_2 = "post_attention_norm"; break;
        case HfClass::olmo2:
            names.ln_1 = "post_attention_norm";
            names.ln_2 = "post_ffw_norm";
            break;
        case HfClass::phi3:
            stack();
            stack_gate();
            break;
        case HfClass::falcon:
            stack();
            // The norm of the mlp is the first, that of attention the second.
            if (model.parallel_residual == ParallelResidual::two_norms) {
                names.ln_1 = "attn_norm_2";
                names.ln_2 = "attn_norm";
            }
            break;
        case HfClass::glm4:
            stack_gate();
            names.pairs_rows = true;
            break;
        case HfClass::smollm3:
        case HfClass::cohere:
        case HfClass::cohere2: names.pairs_rows = true; break;
        default: break;
    }
    return names;
}

}  // namespace gptrain
