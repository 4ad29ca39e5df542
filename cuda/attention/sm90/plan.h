// How backward attention on sm_90a divides its work over blocks and what it keeps in scratch
// memory: plain numbers, which follow from sizes alone.
#pragma once

#include <algorithm>

#include "backend/scratch.h"

namespace gptrain::cuda::sm90 {

/// Columns of a panel of a tile.
constexpr int panel_columns = 64;
/// Of one product.
constexpr int product_rows = 64;
constexpr int key_rows = 128;  ///< of a tile of keys
constexpr int computing_groups = 2;

/// Rows of the numbers of queries are filled up to a multiple of this.
constexpr int padded_rows = 128;
/// A computing group's share of dq of a tile of queries: 64 x 64.
constexpr int share = product_rows * panel_columns;

/// Multiprocessors of an H100 or H200; what is chosen by it depends on sizes alone.
constexpr std::int64_t usual_multiprocessors = 132;
/// No device of compute capability 9.0 has more.
constexpr int most_blocks = 144;

/// One query's.
struct QueryNumbers {
    float lse_log2;  ///< as lse_log2() gives it
    float delta;     ///< sum over D of d_o o
};
/// Of the visible keys of a tile of queries.
constexpr std::int64_t key_range_bytes = 16;

struct BackwardPlan {
    std::int64_t sequences;
    std::int64_t padded;        ///< queries
    std::int64_t query_tiles;   ///< of a head that have rows
    bool ordered;               ///< a block has one tile of keys, not all of them
    std::int64_t summed_heads;  ///< heads that have sums at a time

    BackwardPlan(std::int64_t sequences_, std::int64_t queries, std::int64_t heads,
                 std::int64_t groups, std::int64_t dim)
        : sequences(sequences_) {
        padded = round_up(queries, padded_rows);
        query_tiles = div_ceil(queries * dim, computing_groups * share);
        // Blocks that have all keys of a head are worth it where they fill the device, or there is
        // little to divide, and what they add to stays in the second-level cache.
        const std::int64_t units = sequences * groups;
        const std::int64_t waves = div_ceil(units, usual_multiprocessors);
        const bool filled = 5 * units >= 4 * waves * usual_multiprocessors;
        const bool short_rows = queries <= 2 * key_rows;
        ordered = !(filled || short_rows) || queries * dim > 2048 * 64;
        summed_heads = ordered ? sequences * heads
                               : std::min<std::int64_t>(units, most_blocks) * (heads / groups);
    }
    std::int64_t numbers(std::int64_t all_heads) const { return all_heads * padded; }
    std::int64_t shares() const { return summed_heads * query_tiles * computing_groups; }
    std::int64_t bytes(std::int64_t all_heads) const {
        return Scratch::bytes_of<QueryNumbers>(numbers(all_heads)) +
               Scratch::bytes_of<std::byte>(sequences * query_tiles * key_range_bytes) +
               Scratch::bytes_of<float>(shares() * share) +
               (ordered ? Scratch::bytes_of<unsigned>(shares()) : 0);
    }
};

}  // namespace gptrain::cuda::sm90
