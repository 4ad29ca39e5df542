// Which tile a block works on, which keys its queries see, and which probabilities dropout keeps.
#pragma once

#include <limits>

#include "cuda/attention/params.h"
#include "cuda/device/unrolled.cuh"

namespace gptrain::cuda {

// ---- blocks -------------------------------------------------------------------------------------

/// Blocks are numbered section by section. A section has as many heads as fit with their keys and
/// values in the L2 cache. Within a section, the tiles with the most work come first, across all
/// its heads.
struct BlockOrder {
    int tiles;               ///< per head
    int all_heads;           ///< of all sequences
    int section;             ///< heads per section
    bool last_tile_largest;  ///< whether the last tile has the most work; otherwise the first one
    std::int64_t blocks() const { return static_cast<std::int64_t>(tiles) * all_heads; }
};

struct BlockPlace {
    int tile;
    int head;  ///< among those of all sequences
};

__device__ inline BlockPlace block_place(const BlockOrder& order, int block) {
    const int section_blocks = order.section * order.tiles;
    const int section = block / section_blocks;
    const int rest = block % section_blocks;
    const int heads = std::min(order.section, order.all_heads - section * order.section);
    const int tile = rest / heads;
    return {order.last_tile_largest ? order.tiles - 1 - tile : tile,
            section * order.section + rest % heads};
}
__device__ inline BlockPlace block_place(const BlockOrder& order) {
    return block_place(order, block_index().x);
}

// ---- visibility ---------------------------------------------------------------------------------

/// The keys that some queries see: all see [all_begin, all_end), and none sees a key outside
/// [begin, end).
struct KeyRange {
    int begin;
    int end;
    int all_begin;
    int all_end;
};

__device__ inline int clamped(int x, int low, int high) {
    return x < low ? low : x > high ? high : x;
}

/// The first key that query i sees, if the query exists and sees any.
__device__ inline int first_key(const AttentionParams& p, int sequence, int i) {
    if (p.first_visible == nullptr) return 0;
    const std::int64_t row = static_cast<std::int64_t>(sequence) * p.queries + i;
    return clamped(load_constant(p.first_visible + row) - p.k_begin, 0, p.keys);
}

/// The keys that queries [begin, begin + count) see; at least one of them must exist. Called by a
/// whole warp.
__device__ inline KeyRange visible_keys(const AttentionParams& p, int sequence, int begin,
                                        int count) {
    const int end = std::min(begin + count, p.queries);
    KeyRange range = {0, clamped(end + p.diagonal, 0, p.keys), 0,
                      clamped(begin + p.diagonal + 1, 0, p.keys)};
    if (p.first_visible == nullptr) return range;
    range.begin = p.keys;
    for (int i = begin + lane_index(); i < end; i += warp_threads) {
        const int first = first_key(p, sequence, i);
        range.begin = std::min(range.begin, first);
        range.all_begin = std::max(range.all_begin, first);
    }
    for (int mask = 16; mask > 0; mask /= 2) {
        range.begin = std::min(range.begin, shuffle_xor(range.begin, mask));
        range.all_begin = std::max(range.all_begin, shuffle_xor(range.all_begin, mask));
    }
    return range;
}

/// One query sees the keys from `first` to `last`, both included.
struct KeyBounds {
    int first;
    int last;
    __device__ bool sees(int key) const { return key >= first && key <= last; }
    /// The same bounds relative to `key`.
    __device__ KeyBounds from(int key) const { return {first - key, last - key}; }
};

__device__ inline KeyBounds key_bounds(const AttentionParams& p, int sequence, int query) {
    if (query >= p.queries) return {0, -1};
    return {first_key(p, sequence, query), std::min(query + p.diagonal, p.keys - 1)};
}

/// Bounds of the queries from `begin` on, computed by the block; visible after a barrier. They are
/// in shared memory because few tiles need them and registers are scarce.
template <int threads, int rows>
__device__ inline void fill_key_bounds(KeyBounds (&bounds)[rows], const AttentionParams& p,
                                       int sequence, int begin) {
    for (int i = thread_index(); i < rows; i += threads)
        bounds[i] = key_bounds(p, sequence, begin + i);
}

/// Sets scores [16 R queries, 8 C keys], laid out like c of multiply_add, to -infinity where the
/// key is invisible. bounds[i] belongs to the i-th query; `key` is the first key.
template <int R, int C>
__device__ inline void mask_keys(const KeyBounds* bounds, int key, float (&scores)[R][C][4]) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    unrolled<2 * R>([&](int row) {
        const KeyBounds of_row =
            bounds[8 * row + lane_index() / 4].from(key + lane_index() % 4 * 2);
        for (int j = 0; j < C; ++j) {
            for (int e = 0; e < 2; ++e) {
                float& score = scores[row / 2][j][row % 2 * 2 + e];
                if (!of_row.sees(8 * j + e)) score = -infinity;
            }
        }
    });
}

// ---- dropout ------------------------------------------------------------------------------------

/// Tiles of keys start at key_origin plus multiples of 16. With dropout, the four keys of one draw
/// are then adjacent and in one tile, starting at a multiple of 4.
constexpr int dropout_draw = 4;
__host__ __device__ inline int key_origin(const AttentionParams& p, bool dropout) {
    return dropout ? -(p.k_begin % dropout_draw) : 0;
}

/// Draws which probabilities of one head to keep, for C adjacent tiles of 16 x 8 laid out like c of
/// multiply_add. Bit 4 j + i of the result belongs to c[i] of tile j. Lanes that share a draw of
/// four keys draw once each and exchange the results.
class KeyDropout {
public:
    /// If not `on`, there is nothing to draw and the scale is 1.
    __device__ KeyDropout(const AttentionParams& p, int sequence, int head, bool on) : p_(p) {
        if (!on) return;
        key_ = p.dropout.key();
        sequence_ = static_cast<std::uint32_t>(*p.dropout.first_sequence + sequence);
        head_ = static_cast<std::uint32_t>(p.dropout.head_begin + head);
    }

    __device__ float scale() const { return p_.dropout.scale; }

    __device__ bool kept(int query, int key) const {
        const int in_draw = (p_.k_begin + key) % 4;
        return (draw(query, key - in_draw) >> in_draw & 1) != 0;
    }

    /// Rows are queries starting at `query`, columns are keys starting at `key`.
    template <int C>
    __device__ std::uint32_t rows(int query, int key) const {
        static_assert(C <= 8);
        const int g = lane_index() / 4;
        const int t = lane_index() % 4;
        std::uint32_t kept = 0;
        for (int j = 0; j < C; ++j) {
            std::uint32_t bits = draw(query + g + t % 2 * 8, key + 8 * j + t / 2 * 4)
                                 << (t % 2 * 4);
            bits |= shuffle_xor(bits, 1);
            bits >>= t % 2 * 2;
            kept |= ((bits & 3) | (bits >> 2 & 12)) << (4 * j);
        }
        return kept;
    }

    /// Rows are keys, columns are queries.
    template <int C>
    __device__ std::uint32_t columns(int key, int query) const {
        static_assert(C <= 8);
        const int g = lane_index() / 4;
        const int t = lane_index() % 4;
        const int turn = g % 4;
        std::uint32_t kept = 0;
        for (int j = 0; j < C; ++j) {
            std::uint32_t bits =
                draw(query + 8 * j + 2 * t + turn % 2, key + g / 4 * 4 + turn / 2 * 8)
                << (4 * turn);
            bits |= shuffle_xor(bits, 4);
            bits |= shuffle_xor(bits, 8);
            bits >>= turn;
            kept |= ((bits & 1) | (bits >> 3 & 2) | (bits >> 6 & 4) | (bits >> 9 & 8)) << (4 * j);
        }
        return kept;
    }

private:
    /// Bit w: 1 if key + w is kept for the query. k_begin + key is a multiple of 4.
    __device__ std::uint32_t draw(int query, int key) const {
        const PhiloxBlock words =
            dropout_words(key_, sequence_, p_.q_begin + query, head_, (p_.k_begin + key) / 4);
        std::uint32_t kept = 0;
        for (std::size_t w = 0; w < 4; ++w)
            kept |= (words[w] >= p_.dropout.threshold ? 1u : 0u) << w;
        return kept;
    }

    const AttentionParams& p_;
    PhiloxKey key_{};
    std::uint32_t sequence_ = 0;
    std::uint32_t head_ = 0;
};

}  // namespace gptrain::cuda
