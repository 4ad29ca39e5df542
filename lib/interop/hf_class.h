// The names of the classes of Hugging Face's transformers that compute what one of our models does.
#pragma once

#include "base/error.h"

namespace gptrain {

/// The classes of transformers that a run spec can express.
enum class HfClass {
    gpt2,         ///< learned positions, LayerNorm, GELU
    llama,        ///< rope, RMSNorm, SwiGLU
    mistral,      ///< the same with a sliding window
    ministral,    ///< the same with the window in some layers
    qwen2,        ///< the same as llama with biases of q, k and v alone; windows in some layers
    qwen3,        ///< the same as llama with norms of q and k; windows in some layers
    stablelm,     ///< rope, LayerNorm, SwiGLU
    starcoder2,   ///< rope, LayerNorm, GELU
    mixtral,      ///< the same as mistral with experts chosen by softmax in all layers
    qwen2_moe,    ///< the same as qwen2 with experts chosen by softmax, and a gated shared one
    qwen3_moe,    ///< the same as qwen3 with experts chosen by softmax; windows in all layers
    glm4_moe,     ///< rope, RMSNorm, SwiGLU; experts chosen by sigmoid, and a shared one
    olmoe,        ///< the same as qwen3_moe with norms of q and k over all heads, no windows
    gpt_oss,      ///< sinks, biases, windows in some layers; clamped SwiGLU of experts
    olmo2,        ///< the same as llama with norms after the halves, and of q and k over all heads
    phi3,         ///< the same as mistral with a part of each head rotated
    phi,          ///< rope of a part, LayerNorm, GELU, both halves from one norm
    gpt_neox,     ///< rope of a part, LayerNorm, GELU, both halves from the block's input
    gptj,         ///< the same as phi with fewer biases
    falcon,       ///< rope, LayerNorm, GELU, three kinds of blocks
    bloom,        ///< ALiBi, LayerNorm, GELU, a norm of the embeddings
    opt,          ///< learned positions, LayerNorm, ReLU
    gpt_bigcode,  ///< the same as gpt2 with one key and value for all heads
    gemma,        ///< rope, RMSNorm, GeGLU, scaled embeddings
    gemma2,       ///< the same with norms on both sides of the halves, soft caps, windows
    gemma3,       ///< the same with norms of q and k, and a second base of the rotations
    smollm3,      ///< the same as llama with layers without rotation
    nemotron,     ///< rope of a part, LayerNorm, squared ReLU
    glm,          ///< the same as qwen2 with a part of each head rotated
    glm4,         ///< the same with norms on both sides of the halves
    cohere,       ///< rope, LayerNorm without bias, SwiGLU, both halves from one norm
    cohere2,      ///< the same with windows in some layers, which alone are rotated
};

/// True for Llama and those that differ from it in windows and experts alone. llama.cpp has one
/// architecture for them.
constexpr bool is_llama(HfClass hf_class) {
    return hf_class == HfClass::llama || hf_class == HfClass::mistral ||
           hf_class == HfClass::ministral || hf_class == HfClass::mixtral;
}

/// Ends the program's attempt to find a class for a model.
[[noreturn]] void no_hf_class(const auto&... what) {
    fail(ExitCode::usage, "no class of Hugging Face's transformers has ", what...);
}

}  // namespace gptrain
