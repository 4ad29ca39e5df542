// Functions that the launches of the attention kernels share.
#pragma once

#include <type_traits>

#include "cuda/attention/mask.cuh"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// Shared memory that every device from sm_80 on grants a block.
constexpr std::int64_t shared_bytes_everywhere = 99 * 1024;

/// True if a block fits on every device, and a multiprocessor has room for as many blocks as the
/// launch bounds reserve registers for. With heads wider than 128, an A100 has room for only one.
template <class Shape, class Shared>
constexpr bool shared_memory_fits() {
    constexpr std::int64_t bytes = sizeof(Shared);
    constexpr std::int64_t all =
        Shape::width <= 128 ? multiprocessor_bytes_a100 : multiprocessor_bytes_h100;
    return bytes <= shared_bytes_everywhere &&
           blocks_fit(Shape::blocks_per_multiprocessor, bytes, all);
}

/// Calls f(std::integral_constant<int, W>{}) with the smallest supported width W >= D.
void with_head_width(int head_dim, const auto& f) {
    GPTRAIN_CHECK(head_dim <= max_head_dim, "head_dim ", head_dim, ", at most ", max_head_dim);
    if (head_dim <= 64) return f(std::integral_constant<int, 64>{});
    if (head_dim <= 96) return f(std::integral_constant<int, 96>{});
    if (head_dim <= 128) return f(std::integral_constant<int, 128>{});
    f(std::integral_constant<int, 256>{});
}

/// The order of blocks for tiles of `tile_rows` out of `rows` rows, for `heads` heads of every
/// sequence. More than 2^31 - 1 blocks throw Error (bug); a smaller limit of the device is checked
/// at launch.
inline BlockOrder block_order(const AttentionParams& params, std::int64_t rows, int tile_rows,
                              int heads, bool last_tile_largest) {
    constexpr std::int64_t section_bytes = 16 << 20;
    const std::int64_t head_bytes =
        4 * std::int64_t{params.keys} * params.head_dim * params.groups / params.heads;
    const std::int64_t all_heads = std::int64_t{params.sequences} * heads;
    const std::int64_t sections = std::max<std::int64_t>(1, all_heads * head_bytes / section_bytes);
    const BlockOrder order = {
        gptrain::narrow<int>(div_ceil(rows, tile_rows)), gptrain::narrow<int>(all_heads),
        static_cast<int>(div_ceil(all_heads, std::min(sections, all_heads))), last_tile_largest};
    gptrain::narrow<int>(order.blocks());
    return order;
}

}  // namespace gptrain::cuda
