// The order of work in backward attention on sm_90a, and the thread that loads tiles.
//
// A unit of work is one tile of keys of a group of heads. Units visit the tiles of keys from the
// last to the first, and each visits its tiles of queries from the diagonal on. It adds to their dq
// in its turn; units that start together never want the same tile of dq at the same time.
//
// Blocks take units from a counter, so a block that starts late takes the remaining ones. Waiting
// for a turn cannot deadlock: a unit waits only for lower-numbered units, of the same heads or of
// those that had the same sums before, which resident blocks have already taken and process in
// order. So the lowest unfinished unit never waits.
#pragma once

#include "cuda/attention/sm90/shared.cuh"

namespace gptrain::cuda::sm90 {

/// The order of a block's work: tiles of keys, and for each the tiles of queries that visit it,
/// head by head. Written to use few registers.
template <class Shape>
class WorkIterator {
public:
    /// Before the first tile of keys.
    __device__ WorkIterator(const BackwardWork& work, int origin) : work_(work), origin_(origin) {}
    __device__ bool done() const { return done_; }
    __device__ void next_keys() {
        const auto unit = static_cast<int>(atomic_add(work_.next_unit, 1u));
        done_ = unit >= work_.units;
        const int pair = unit / work_.key_tiles;
        tile_ = work_.key_tiles - 1 - unit % work_.key_tiles;
        sequence_ = pair / work_.p.groups;
        group_ = pair % work_.p.groups;
    }
    /// The caller sets its kind.
    __device__ KeyTile keys() const { return {KeyTile::unseen, sequence_, group_, key()}; }

    __device__ void begin_queries() {
        step_.head = group_ * work_.p.heads_per_group();
        step_.query = first_query();
    }
    /// Advances from the current position to the next step; false if there is none.
    __device__ bool find_step() {
        const AttentionParams& p = work_.p;
        for (; step_.head < (group_ + 1) * p.heads_per_group();
             ++step_.head, step_.query = first_query()) {
            for (; step_.query < p.queries; step_.query += Shape::rows) {
                const KeyRange range = visible(step_.query);
                if (range.begin >= key() + key_rows && tile_ > 0) break;  // so do all later ones
                const TileRange tiles = tiles_of(range, origin_);
                if (tile_ < tiles.first || tile_ > tiles.last) continue;
                step_.turn = tiles.last - tile_;
                step_.flags = (needs_mask(range, key()) ? QueryStep::masked : 0) |
                              (tile_ == tiles.first ? QueryStep::complete : 0);
                return true;
            }
        }
        return false;
    }
    __device__ const QueryStep& step() const { return step_; }
    __device__ void next_step() { step_.query += Shape::rows; }

private:
    __device__ int key() const { return origin_ + tile_ * key_rows; }
    __device__ KeyRange visible(int query) const {
        const AttentionParams& p = work_.p;
        if (work_.ranges != nullptr) {
            return load_constant(work_.ranges + sequence_ * work_.query_tiles +
                                 query / Shape::rows);
        }
        const int end = std::min(query + Shape::rows, p.queries);
        return {0, clamped(end + p.diagonal, 0, p.keys), 0,
                clamped(query + p.diagonal + 1, 0, p.keys)};
    }
    /// Queries that see nothing visit the first tile of keys.
    __device__ int first_query() const {
        const int first = tile_ == 0 ? 0 : clamped(key() - work_.p.diagonal, 0, work_.p.queries);
        return first / Shape::rows * Shape::rows;
    }

    const BackwardWork& work_;
    int origin_;
    bool done_ = false;
    int tile_ = 0;
    int sequence_ = 0;
    int group_ = 0;
    QueryStep step_{};
};

template <class Shape>
__device__ inline void load_keys(const BackwardWork& work, BackwardShared<Shape>& shared,
                                 const KeyTile& tile, Ring<Shape::key_buffers>& ring) {
    const int at = ring.at();
    Barrier& full = shared.keys[at].full;
    wait(shared.keys[at].empty, ring.parity() ^ 1);
    ring.advance();
    shared.key_tiles[at] = tile;
    if (tile.kind != KeyTile::seen) return arrive(full);
    arrive_expect_bytes(full, 2 * static_cast<int>(sizeof(shared.k[0])));
    load_tile(shared.k[at], work.k, tile.group, tile.key, tile.sequence, full);
    load_tile(shared.v[at], work.v, tile.group, tile.key, tile.sequence, full);
}

template <class Shape>
__device__ inline void load_queries(const BackwardWork& work, BackwardShared<Shape>& shared,
                                    int sequence, const QueryStep& step,
                                    Ring<Shape::query_buffers>& ring) {
    constexpr int statistics_bytes = sizeof(shared.statistics[0]);
    const int at = ring.at();
    Barrier& full = shared.queries[at].full;
    wait(shared.queries[at].empty, ring.parity() ^ 1);
    ring.advance();
    shared.steps[at] = step;
    arrive_expect_bytes(full, 2 * static_cast<int>(sizeof(shared.q[0])) + statistics_bytes);
    load_tile(shared.q[at], work.q, step.head, step.query, sequence, full);
    load_tile(shared.d_o[at], work.d_o, step.head, step.query, sequence, full);
    const int row = sequence * work.p.heads + step.head;
    load_bulk(shared.statistics[at],
              work.statistics + std::int64_t{row} * work.padded_queries + step.query,
              statistics_bytes, full);
}

template <class Shape>
__device__ inline void load_tiles_in(const BackwardWork& work, BackwardShared<Shape>& shared,
                                     int origin) {
    Ring<Shape::key_buffers> key_ring;
    Ring<Shape::query_buffers> query_ring;
    for (WorkIterator<Shape> iterator(work, origin);;) {
        iterator.next_keys();
        KeyTile keys = iterator.keys();
        iterator.begin_queries();
        bool more = !iterator.done() && iterator.find_step();
        keys.kind = iterator.done() ? KeyTile::stop : more ? KeyTile::seen : KeyTile::unseen;
        load_keys<Shape>(work, shared, keys, key_ring);
        if (keys.kind == KeyTile::stop) return;
        while (more) {
            QueryStep step = iterator.step();
            iterator.next_step();
            more = iterator.find_step();
            if (!more) step.flags |= QueryStep::last;
            load_queries<Shape>(work, shared, keys.sequence, step, query_ring);
        }
    }
}

}  // namespace gptrain::cuda::sm90
