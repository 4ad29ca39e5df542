// Views of q, k and v that lie together in one tensor, or of their gradients.
#pragma once

#include "tensor/tensor.h"

namespace gptrain {

struct PackedQkv {
    Tensor q;  ///< [..., N, D]
    Tensor k;  ///< [..., G, D]
    Tensor v;  ///< [..., G, D]
};
/// The views in packed [..., N + 2 G, D].
inline PackedQkv split_qkv(const Tensor& packed, std::int64_t heads, std::int64_t groups) {
    const int dim = packed.rank() - 2;
    return {.q = packed.slice(dim, 0, heads),
            .k = packed.slice(dim, heads, groups),
            .v = packed.slice(dim, heads + groups, groups)};
}

struct PackedKv {
    Tensor k;  ///< [..., G, D]
    Tensor v;  ///< [..., G, D]
};
/// The views in packed [..., 2 G, D].
inline PackedKv split_kv(const Tensor& packed) {
    const int dim = packed.rank() - 2;
    const std::int64_t groups = packed.size(dim) / 2;
    return {.k = packed.slice(dim, 0, groups), .v = packed.slice(dim, groups, groups)};
}

}  // namespace gptrain
