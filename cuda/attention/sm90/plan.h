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
///
/// Units come section by section, and in a section tile of keys by tile of keys. The more groups a
/// section has, the later a unit starts after the one before it in its group, which must be ahead
/// of it, and the longer queries and sums have to stay in the L2 cache. Sections have the same
/// size, but for the first one, which has what is left, and the last one: that is large enough for
/// all blocks to end with short units.
struct BackwardPlan {
    std::int64_t sequences;
    std::int64_t padded;       ///< queries, padded
    std::int64_t query_tiles;  ///< tiles per head that contain queries
    std::int64_t slots;        ///< groups of heads that have sums at the same time
    std::int64_t slot_blocks;  ///< of dq_block_size elements
    std::int64_t section;      ///< groups in a section
    std::int64_t sections;     ///< before the last one
    std::int64_t lacking;      ///< groups that the first section has fewer

    /// `blocks` run at a time. Their number changes the memory needed, but no result.
    BackwardPlan(std::int64_t sequences_, std::int64_t queries, std::int64_t heads,
                 std::int64_t groups, std::int64_t dim, std::int64_t blocks = max_blocks)
        : sequences(sequences_) {
        padded = round_up(queries, padded_rows);
        query_tiles = div_ceil(queries * dim, computing_groups * dq_block_size);
        const std::int64_t all = sequences * groups;
        const std::int64_t at_once = blocks * key_rows;
        // Their queries, gradients of o and sums have 17 MB for 132 blocks.
        const std::int64_t cached_heads = at_once * 128 / (dim * padded);
        section = std::clamp<std::int64_t>(cached_heads * groups / heads, 1, all);
        const std::int64_t last = std::max(section, std::min(at_once / padded, all));
        lacking = (section - (all - last) % section) % section;
        sections = (all - last + lacking) / section;
        // Room for the groups of a section, and for at least two.
        slots = std::min(std::max<std::int64_t>(last, 2), all);
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
