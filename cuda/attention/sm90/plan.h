// How backward attention on sm_90a divides its work among blocks and what it keeps in scratch
// memory: plain numbers that depend only on sizes.
#pragma once

#include <algorithm>

#include "backend/scratch.h"

namespace gptrain::cuda::sm90 {

/// Columns in a panel of a tile.
constexpr int panel_columns = 64;
/// Rows of one matrix multiply.
constexpr int mma_rows = 64;
constexpr int key_rows = 128;  ///< of a tile of keys
constexpr int computing_groups = 2;

/// Query rows of RowStatistics are padded to a multiple of this.
constexpr int padded_rows = 128;
/// Elements in a computing group's block of dq of a tile of queries: 64 x 64.
constexpr int dq_block_size = mma_rows * panel_columns;

/// No device of compute capability 9.0 has more multiprocessors.
constexpr int max_blocks = 144;

/// Statistics of one query that the kernel reads.
struct RowStatistics {
    float lse_log2;  ///< as returned by lse_log2()
    float delta;     ///< sum over D of d_o o
};
/// Bytes of the visible key range of a tile of queries.
constexpr std::int64_t key_range_bytes = 16;

/// A unit of work is one tile of keys of one group of heads. Units of a group add to the sums of dq
/// in turn. The last one makes room for the sums of a later group.
struct BackwardPlan {
    std::int64_t sequences;
    std::int64_t padded;       ///< queries, padded
    std::int64_t query_tiles;  ///< tiles per head that contain queries
    std::int64_t slots;        ///< groups of heads that have sums at the same time
    std::int64_t slot_blocks;  ///< of dq_block_size elements

    /// `blocks` run at a time. Their number changes the memory needed, but no result.
    BackwardPlan(std::int64_t sequences_, std::int64_t queries, std::int64_t heads,
                 std::int64_t groups, std::int64_t dim, std::int64_t blocks = max_blocks)
        : sequences(sequences_) {
        padded = round_up(queries, padded_rows);
        query_tiles = div_ceil(queries * dim, computing_groups * dq_block_size);
        // Has room for twice the rows that all blocks work on at a time, and for at least two
        // groups, so that no block waits for room.
        const std::int64_t wanted = std::max<std::int64_t>(2 * blocks * key_rows / padded, 2);
        slots = std::min(wanted, sequences * groups);
        slot_blocks = heads / groups * query_tiles * computing_groups;
    }
    std::int64_t statistics(std::int64_t all_heads) const { return all_heads * padded; }
    std::int64_t dq_blocks() const { return slots * slot_blocks; }
    /// The next unit of work, and turns.
    std::int64_t counters() const { return 1 + dq_blocks(); }
    std::int64_t bytes(std::int64_t all_heads) const {
        return Scratch::bytes_of<RowStatistics>(statistics(all_heads)) +
               Scratch::bytes_of<std::byte>(sequences * query_tiles * key_range_bytes) +
               Scratch::bytes_of<float>(dq_blocks() * dq_block_size) +
               Scratch::bytes_of<unsigned>(counters());
    }
};

}  // namespace gptrain::cuda::sm90
