// The state that the warps of forward attention on sm_90a share: the kernel's arguments, the data
// that they hand to each other, and the barriers that synchronize them.
#pragma once

#include "cuda/attention/sm90/tiles.cuh"

namespace gptrain::cuda::sm90 {

/// Sizes of the kernel for one D.
template <int dim_>
struct ForwardShape {
    static constexpr int dim = dim_;
    static constexpr int rows = computing_groups * mma_rows;  ///< of a tile of queries
    static constexpr int key_buffers = dim == 64 ? 4 : 2;
    static constexpr int query_buffers = 2;
    /// Registers per thread; together all registers of a multiprocessor.
    static constexpr int loader_registers = 48;
    static constexpr int compute_registers = 224;
};

/// Arguments of the kernel.
struct ForwardWork {
    TensorMap q, k, v;  ///< boxes of a tile's rows
    TensorMap o;        ///< boxes of mma_rows
    AttentionParams p;
    BlockOrder order;  ///< order of the tiles of queries
    int all_tiles;
    unsigned* next_tile;  ///< index of the next tile that a block takes
    float* amax;          ///< of o, for the variant that finds it
    Fp8Rows o8;           ///< for the variant that writes it
};

/// A tile of queries and the tiles of keys that it visits, from the last to the first.
struct QueryTile {
    int sequence;
    int head;
    int query;
    int key;        ///< first key of the last tile of keys
    int key_tiles;  ///< 0: no more work
    KeyRange visible;
};

template <class Shape>
struct ForwardShared {
    Tile<Shape::rows, Shape::dim> q[Shape::query_buffers];  ///< later holds o
    Tile<key_rows, Shape::dim> k[Shape::key_buffers];
    Tile<key_rows, Shape::dim> v[Shape::key_buffers];
    BufferBarriers queries[Shape::query_buffers];
    BufferBarriers k_barriers[Shape::key_buffers];
    BufferBarriers v_barriers[Shape::key_buffers];
    Barrier results[Shape::query_buffers][computing_groups];  ///< o has been written
    QueryTile tiles[Shape::query_buffers];
};

/// Barrier numbers; add the group.
namespace barrier {
constexpr int turn = 1;   ///< the group's turn to start matrix multiplies
constexpr int group = 3;  ///< the warps of one group
constexpr int both_groups = computing_groups * group_threads;
}  // namespace barrier

}  // namespace gptrain::cuda::sm90
