// Shared by attention forward and backward: the keys that a tile of queries sees, and fp32 tiles
// loaded from tensors of any dtype and stride.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "backend/ops.h"
#include "cpu/dropout_mask.h"
#include "cpu/tile_kernels.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {

/// Head dim as stored in tiles; padding columns are 0.
inline std::int64_t padded_dim(std::int64_t head_dim) {
    return round_up(head_dim, tile_unit);
}

inline constexpr float infinity = std::numeric_limits<float>::infinity();

inline float score_scale(std::int64_t head_dim) {
    return static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
}

/// log of the sum of exponentials, from a running softmax over the keys that a query sees: their
/// maximum, -infinity if there are none, and the sum relative to it.
inline float lse_of(float maximum, float sum) {
    if (maximum == -infinity) return -infinity;
    return static_cast<float>(maximum + std::log(static_cast<double>(sum)));
}

/// Rows of one head of a [B, S, heads, D] tensor.
template <class T>
Rows<T> rows_of_head(const Tensor& tensor, std::int64_t b, std::int64_t head) {
    Rows<T> rows;
    rows.data = tensor.as<T>() + b * tensor.stride(0) + head * tensor.stride(2);
    rows.stride = tensor.stride(1);
    return rows;
}

/// Rows [begin, begin + count) of one head of a [B, S, heads, D] tensor.
template <class T>
TileRows<T> tile_of_head(const Tensor& tensor, std::int64_t b, std::int64_t head,
                         std::int64_t begin, std::int64_t count) {
    const Rows<T> rows = rows_of_head<T>(tensor, b, head);
    return {rows[begin], rows.stride, count, tensor.size(3)};
}

/// tile [count][padded_dim] = rows
template <class T>
void load_tile(const TileRows<T>& rows, float* tile) {
    const std::int64_t width = padded_dim(rows.dim);
    for (std::int64_t i = 0; i < rows.count; ++i) {
        const T* row = rows.data + i * rows.stride;
        float* to = tile + i * width;
        for_vectors(0, rows.dim,
                    [&](std::int64_t d, auto lanes) { load(row + d, lanes).store(to + d); });
        const std::int64_t written = round_up(rows.dim, Vec8::size);
        std::fill(to + written, to + width, 0.0f);
    }
}

/// Rows as left and as right operand [count][padded_dim].
struct RowOperands {
    TileOperand left;
    TileOperand right;
};

/// Makes both in memory for a tile. Each packed operand takes half of it, the right one the first
/// half; others share it.
template <class T>
RowOperands row_operands(const TileKernels& kernels, const TileRows<T>& rows, float* memory) {
    const std::int64_t width = padded_dim(rows.dim);
    if constexpr (std::is_same_v<T, Bf16>) {
        if (kernels.left_rows != nullptr) {
            float* second = memory + round_up(rows.count, 2) / 2 * width;
            return {kernels.left_rows(rows, second), kernels.right_rows(rows, memory)};
        }
    }
    load_tile(rows, memory);
    return {{memory, width, 1}, {memory, 0, width}};
}

template <class T>
TileOperand left_operand(const TileKernels& kernels, const TileRows<T>& rows, float* memory) {
    if constexpr (std::is_same_v<T, Bf16>)
        if (kernels.left_rows != nullptr) return kernels.left_rows(rows, memory);
    return row_operands(kernels, rows, memory).left;
}

template <class T>
TileOperand right_operand(const TileKernels& kernels, const TileRows<T>& rows, float* memory) {
    if constexpr (std::is_same_v<T, Bf16>)
        if (kernels.right_rows != nullptr) return kernels.right_rows(rows, memory);
    return row_operands(kernels, rows, memory).right;
}

/// rows [begin, begin + count) = scale tile, or += if `accumulate`
template <class T>
void store_tile(const float* tile, const Rows<T>& rows, std::int64_t begin, std::int64_t count,
                std::int64_t dim, Vec8 scale, bool accumulate) {
    for (std::int64_t i = 0; i < count; ++i) {
        T* row = rows[begin + i];
        const float* from = tile + i * padded_dim(dim);
        for_vectors(0, dim, [&](std::int64_t d, auto lanes) {
            const Vec8 x = Vec8::load(from + d) * scale;
            store(row + d, accumulate ? load(row + d, lanes) + x : x, lanes);
        });
    }
}

/// The right operand [padded_dim][tile_size] that is the transpose of a left operand of `count`
/// rows, in `memory`; columns from `count` on are 0.
TileOperand transposed_operand(const TileOperand& left, std::int64_t count, float* memory);

/// c [keys][tile_size] = scale k q^T, one row for each key, where k [keys][padded_dim] and q^T
/// [padded_dim][queries].
inline TileGemm gemm_by_key(const ScoreTile& tile, std::int64_t dim, const TileOperand& k,
                            const TileOperand& q_transposed, float scale, float* c) {
    return {.a = k,
            .b = q_transposed,
            .c = c,
            .c_row = tile_size,
            .rows = tile.keys,
            .cols = tile.queries,
            .length = dim,
            .accumulate = false,
            .scale = scale};
}

/// A tile of queries of one head.
struct QueryTile {
    std::int64_t b;
    std::int64_t head;
    std::int64_t begin;
    std::int64_t count;
};

/// Keys, by index among those of the call; none if end <= begin.
struct KeyRange {
    std::int64_t begin;
    std::int64_t end;
};

/// The keys that query `i` of sequence `b` sees.
KeyRange keys_seen(const AttentionForward& args, std::int64_t b, std::int64_t i);

/// The keys that a tile of queries sees, by index among the keys of the call.
class VisibleKeys {
public:
    VisibleKeys() = default;
    VisibleKeys(const AttentionForward& args, std::int64_t b, std::int64_t begin,
                std::int64_t count);

    /// No query of the tile sees keys outside [begin, end); begin is a multiple of tile_size. If no
    /// query sees any, both are 0.
    std::int64_t begin() const { return begin_; }
    std::int64_t end() const { return end_; }
    /// Sets `first` and `last` for the tile of keys that starts at `key`.
    void mask(std::int64_t key, ScoreTile& tile);

private:
    std::int64_t first_[tile_size];
    std::int64_t last_[tile_size];
    float first_in_tile_[tile_size];
    float last_in_tile_[tile_size];
    std::int64_t begin_ = 0;
    std::int64_t end_ = 0;
};

/// The scores, not yet computed, of a tile of queries and the keys from `key` on: which keys each
/// query sees, and the dropout factors, which are drawn into `factors` [keys][tile_size].
ScoreTile score_tile(const AttentionForward& args, const DropoutMask& mask, const QueryTile& at,
                     VisibleKeys& visible, std::int64_t key, float* scores, float* factors);

/// The change of those scores. `slopes`: as in ScoreChange.
ScoreChange score_change(const AttentionForward& args, const QueryTile& at, std::int64_t key,
                         float* slopes = nullptr);

}  // namespace gptrain::cpu
