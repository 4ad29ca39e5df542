// The state that the warps of backward attention on sm_90a share: the kernel's arguments, the data
// that they hand to each other, and the barriers that synchronize them.
#pragma once

#include "cuda/attention/sm90/tiles.cuh"

namespace gptrain::cuda::sm90 {

constexpr int delivery_buffers = 2;

/// Sizes of the kernel for one D.
template <int dim_>
struct BackwardShape {
    static constexpr int dim = dim_;
    static constexpr int rows = dim == 64 ? 128 : 64;  ///< of a tile of queries
    static constexpr int halves = rows / mma_rows;
    static constexpr int key_buffers = dim == 64 ? 2 : 1;
    static constexpr int query_buffers = 2;
    /// Registers per thread; together all registers of a multiprocessor.
    static constexpr int loader_registers = 40;
    static constexpr int compute_registers = 232;
    static_assert(rows * dim == computing_groups * dq_block_size && padded_rows % rows == 0);

    /// Where a computing group's block of dq begins in a tile of queries: it has half of the rows
    /// of 128 queries, or half of the columns of 64.
    __device__ static constexpr int dq_row(int group) { return halves > 1 ? group * mma_rows : 0; }
    __device__ static constexpr int dq_column(int group) {
        return halves > 1 ? 0 : group * panel_columns;
    }
};

/// Arguments of the kernel.
struct BackwardWork {
    TensorMap q, k, v, d_o;  ///< boxes of a tile's rows
    TensorMap dq, dk, dv;    ///< boxes of mma_rows; unused if gradients accumulate
    AttentionParams p;
    AttentionGradients gradients;
    const RowStatistics* statistics;  ///< [B, N, padded_queries]
    const KeyRange* ranges;           ///< [B, query_tiles]: visible keys, if first_visible is given
    /// dq before scaling, for each slot, head and tile of queries, as one block of dq_block_size
    /// elements per computing group: register 4 i + j of thread t is at 512 i + 4 t + j.
    float* sums;
    /// For each of these blocks, turns_of_owner times how many groups of heads are done with it,
    /// plus how many tiles of keys of the next one have added to it.
    unsigned* turns;
    int slots;
    int slot_blocks;
    int section;  ///< like the next two as in BackwardPlan
    int sections;
    int lacking;
    int key_tiles;
    int query_tiles;  ///< per head, like padded_queries
    int padded_queries;
    int units;            ///< pieces of work
    unsigned* next_unit;  ///< index of the next unit that a block takes
    /// For the variant that finds them.
    float* dv_amax;
    float* dqk_amax;  ///< of dq and dk, or null
};
constexpr unsigned turns_of_owner = 1 << 16;  ///< more than a tile of queries has tiles of keys

/// A tile of keys of one group of heads.
struct KeyTile {
    enum Kind : int { unseen, seen, stop } kind;  ///< unseen: no query sees it
    int sequence;
    int group;
    int key;  ///< the first key; rows below 0 or past the last key do not exist
};

/// A tile of queries paired with the tile of keys.
struct QueryStep {
    int head;
    int query;
    int turn;  ///< tiles of keys already added to its dq
    enum Flags : int { masked = 1, complete = 2, last = 4 };
    int flags;  ///< complete: last to add to its dq; last: last step of the tile of keys
    __device__ bool has(Flags flag) const { return (flags & flag) != 0; }
};

/// The kind and place of results that a computing group hands to its delivering warp. query_sums:
/// to be added in turn. queries: the total, scaled and rounded, unless the computing group has
/// added it in fp32.
struct Delivery {
    enum Kind : int { query_sums, queries, key_values, stop } kind;
    KeyTile keys;
    int key_buffer;  ///< of key_values
    QueryStep step;
};

template <class Shape>
struct BackwardShared {
    Tile<key_rows, Shape::dim> k[Shape::key_buffers];
    Tile<key_rows, Shape::dim> v[Shape::key_buffers];
    Tile<Shape::rows, Shape::dim> q[Shape::query_buffers];
    Tile<Shape::rows, Shape::dim> d_o[Shape::query_buffers];
    /// Gradients of the scores [queries, keys]; panel g belongs to group g. Of both halves of a
    /// tile of queries, or of two tiles in turn.
    Tile<mma_rows, key_rows> d_scores[2];
    /// dq of a tile of queries or, rounded, dk of a tile of keys.
    alignas(1024) float results[computing_groups][delivery_buffers][dq_block_size];
    Vec<RowStatistics, 2> statistics[Shape::query_buffers][Shape::rows / 2];
    BufferBarriers keys[Shape::key_buffers];
    BufferBarriers queries[Shape::query_buffers];
    KeyTile key_tiles[Shape::key_buffers];
    QueryStep steps[Shape::query_buffers];
    Delivery deliveries[computing_groups][delivery_buffers];
};

/// Barrier numbers.
namespace barrier {
constexpr int scores_full = 1;     ///< both groups have written d_scores
constexpr int scores_empty = 2;    ///< + group: the other group is done with d_scores
constexpr int delivery_full = 4;   ///< + delivery_buffers * group + buffer
constexpr int delivery_empty = 8;  ///< the same
constexpr int both_groups = computing_groups * group_threads;
constexpr int group_and_warp = group_threads + warp_threads;
}  // namespace barrier

}  // namespace gptrain::cuda::sm90
