// What the warps of backward attention on sm_90a share: the arguments of the kernel, what they hand
// to each other, and the barriers by which they do.
#pragma once

#include "cuda/attention/sm90/tiles.cuh"

namespace gptrain::cuda::sm90 {

/// Sizes of the kernel for one D.
template <int dim_>
struct BackwardShape {
    static constexpr int dim = dim_;
    static constexpr int rows = dim == 64 ? 128 : 64;  ///< of a tile of queries
    static constexpr int halves = rows / product_rows;
    static constexpr int key_buffers = dim == 64 ? 2 : 1;
    static constexpr int query_buffers = 2;
    /// Registers of a thread: together what a multiprocessor has.
    static constexpr int moving_registers = 40;
    static constexpr int computing_registers = 232;
    static_assert(rows * dim == computing_groups * share && padded_rows % rows == 0);
};

/// Arguments of the kernel.
struct BackwardWork {
    TensorMap q, k, v, d_o;  ///< boxes of a tile's rows
    TensorMap dk, dv;        ///< boxes of product_rows; not used where gradients accumulate
    AttentionParams p;
    AttentionGradients gradients;
    const QueryNumbers* numbers;  ///< [B, N, padded_queries]
    const KeyRange* ranges;       ///< [B, query_tiles]: visible keys, where first_visible is given
    /// dq before the scale, of each head and tile of queries, as `share`s of the groups: register
    /// 4 i + j of thread t at 512 i + 4 t + j. For all heads, or for the blocks' present ones.
    float* sums;
    /// For each head, tile of queries and group, how many tiles of keys have added; null where a
    /// block has all.
    unsigned* turns;
    int key_tiles;
    int query_tiles;  ///< of a head, as padded_queries
    int padded_queries;
    int share_columns = panel_columns;  ///< for a loop that is not to be written out
    int units;                          ///< pieces of work; each block takes every grid_blocks-th
    __device__ bool ordered() const { return turns != nullptr; }
};

/// A tile of keys of one group of heads.
struct KeyTile {
    enum Kind : int { unseen, seen, stop } kind;  ///< unseen: by no query
    int sequence;
    int group;
    int key;  ///< the first; below 0 or past the last one there may be rows that are not there
};

/// A tile of queries against the tile of keys.
struct QueryStep {
    int head;
    int query;
    int turn;  ///< tiles of keys that have been added to its dq
    enum Flags : int { masked = 1, complete = 2, last = 4 };
    int flags;  ///< complete: no tile of keys comes after; last: of the tile of keys
    __device__ bool has(Flags flag) const { return (flags & flag) != 0; }
};

/// What a computing group hands to its delivering warp.
struct Delivery {
    enum Kind : int { query_sums, key_sums, stop } kind;
    KeyTile keys;
    int key_buffer;
    QueryStep step;
};

template <class Shape>
struct BackwardShared {
    Tile<key_rows, Shape::dim> k[Shape::key_buffers];
    Tile<key_rows, Shape::dim> v[Shape::key_buffers];
    Tile<Shape::rows, Shape::dim> q[Shape::query_buffers];
    Tile<Shape::rows, Shape::dim> d_o[Shape::query_buffers];
    /// Gradients of scores [queries, keys]; panel g is group g's.
    Tile<product_rows, key_rows> d_scores[Shape::halves];
    alignas(1024) float sums[computing_groups][share];
    alignas(1024) float before[computing_groups][share];  ///< what sums are added to
    Vec<QueryNumbers, 2> numbers[Shape::query_buffers][Shape::rows / 2];
    Exchange keys[Shape::key_buffers];
    Exchange queries[Shape::query_buffers];
    Barrier before_full[computing_groups];
    KeyTile key_tiles[Shape::key_buffers];
    QueryStep steps[Shape::query_buffers];
    Delivery deliveries[computing_groups];
};

/// Barriers by number.
namespace barrier {
constexpr int scores_full = 1;     ///< both groups have written d_scores
constexpr int scores_empty = 2;    ///< + group: the other one has done with d_scores
constexpr int delivery_full = 4;   ///< + group
constexpr int delivery_empty = 6;  ///< + group
constexpr int both_groups = computing_groups * group_threads;
constexpr int group_and_warp = group_threads + warp_threads;
}  // namespace barrier

}  // namespace gptrain::cuda::sm90
