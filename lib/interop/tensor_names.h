// The names of a model's tensors in another program, and how it stores them.
#pragma once

#include <cstdint>
#include <string_view>

#include "interop/hf_class.h"
#include "spec/run_plan.h"

namespace gptrain {

/// How q, k and v are stored.
enum class QkvLayout {
    separate,
    stacked,   ///< one tensor, called q: the rows of q, then k, then v
    by_group,  ///< one tensor, called q: for each query group the rows of its q heads, its k, its v
};

/// Biases that the files of every model have. Where ours has none, they are 0.
struct FileBiases {
    bool qkv = false, attention = false, mlp = false, norm = false, head = false;
};

constexpr FileBiases file_norm_biases = {.norm = true};
/// All but that of the head.
constexpr FileBiases file_biases = {.qkv = true, .attention = true, .mlp = true, .norm = true};

/// Names without ".weight" and ".bias". Our block's norms are ln_1, ln_2 and, where a half has two
/// norms, ln_1_post and ln_2_post.
struct TensorNames {
    std::string_view embedding = {}, positions = {}, embedding_norm = {};
    std::string_view block = {};  ///< before the number of the layer; the next are relative to it
    std::string_view ln_1 = {}, q = {}, k = {}, v = {}, q_norm = {}, k_norm = {}, attn_proj = {};
    std::string_view sinks = {};  ///< the whole name
    std::string_view ln_1_post = {}, ln_2 = {}, ln_2_post = {};
    std::string_view fc = {}, gate = {}, mlp_proj = {};
    std::string_view ln_f = {}, head = {};
    QkvLayout qkv = QkvLayout::separate;
    FileBiases biases = {};
    bool stacks_gate = false;          ///< the gate and fc are one tensor, called gate
    bool transposes = false;           ///< linear layers are [in, out]
    bool needs_head = false;           ///< a copy of tied embeddings
    bool pairs_rows = false;           ///< rotations are of neighbouring features of q and k
    bool norms_less_1 = false;         ///< norms hold what is added to 1
    double ln_f_factor = 1;            ///< our last norm is theirs times this power of 2
    std::int64_t spare_positions = 0;  ///< before the first one
};

TensorNames hf_tensor_names(const ModelShape& model, HfClass hf_class);
TensorNames gguf_tensor_names(const ModelShape& model, HfClass hf_class);

}  // namespace gptrain
