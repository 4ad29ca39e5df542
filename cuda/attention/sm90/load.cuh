// The order of work in backward attention on sm_90a, and the thread that loads tiles.
//
// A unit of work is one tile of keys of a group of heads. Units visit the tiles of keys from the
// first to the last, so those with the most queries come first, and each visits its tiles of
// queries from the last one back to the diagonal, all heads of the group at each. It adds to their
// dq in its turn. The groups of a section alternate, so that a unit starts some steps after the one
// before it in its group and finds its turns up.
//
// Blocks take units from a counter, so a block that starts late takes the remaining ones. Waiting
// for a turn cannot deadlock: a unit waits only for lower-numbered units, of the same heads or of
// those that had the same sums before, which resident blocks have already taken and process in
// order. So the lowest unfinished unit never waits.
#pragma once

#include "cuda/attention/sm90/shared.cuh"

namespace gptrain::cuda::sm90 {

/// The order of a block's work: tiles of keys, and for each the tiles of queries that visit it.
/// Written to use few registers.
template <class Shape>
class WorkIterator {
public:
    /// Before the first tile of keys.
    __device__ WorkIterator(const BackwardWork& work, int origin) : work_(work), origin_(origin) {}
    __device__ bool done() const { return done_; }
    __device__ void next_keys() {
        const auto unit = static_cast<int>(atomic_add(work_.next_unit, 1u));
        done_ = unit >= work_.units;
        const int lacking = work_.lacking;
        const int section = std::min(
            (unit + lacking * work_.key_tiles) / (work_.section * work_.key_tiles), work_.sections);
        const int begin = std::max(section * work_.section - lacking, 0);
        const int end = section < work_.sections ? (section + 1) * work_.section - lacking
                                                 : work_.p.sequences * work_.p.groups;
        const int rest = unit - begin * work_.key_tiles;
        tile_ = rest / (end - begin);
        const int pair = begin + rest % (end - begin);
        sequence_ = pair / work_.p.groups;
        group_ = pair % work_.p.groups;
    }
    /// The caller sets its kind.
    __device__ KeyTile keys() const { return {KeyTile::unseen, sequence_, group_, key()}; }

    __device__ void begin_queries() {
        step_.head = first_head();
        first_ = first_query();
        step_.query = last_query();
        unseeing_ = tile_ == 0 ? step_.query + Shape::rows : work_.p.queries;
    }
    /// Advances from the current position to the next step; false if there is none.
    __device__ bool find_step() {
        for (;; step_.query -= Shape::rows) {
            if (step_.query < first_) {
                if (unseeing_ >= work_.p.queries) return false;
                first_ = unseeing_;
                unseeing_ = work_.p.queries;
                step_.query = top_query();
            }
            const KeyRange range = visible(step_.query);
            const TileRange tiles = tiles_of(range, origin_);
            if (tile_ < tiles.first || tile_ > tiles.last) continue;
            step_.turn = tile_ - tiles.first;
            step_.flags = (needs_mask(range, key()) ? QueryStep::masked : 0) |
                          (tile_ == tiles.last ? QueryStep::complete : 0);
            return true;
        }
    }
    __device__ const QueryStep& step() const { return step_; }
    __device__ void next_step() {
        if (++step_.head < first_head() + work_.p.heads_per_group()) return;
        step_.head = first_head();
        step_.query -= Shape::rows;
    }

private:
    __device__ int key() const { return origin_ + tile_ * key_rows; }
    __device__ int first_head() const { return group_ * work_.p.heads_per_group(); }
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
    __device__ int top_query() const { return (work_.p.queries - 1) / Shape::rows * Shape::rows; }
    /// Queries that see nothing visit the first tile of keys, after those that see it if they come
    /// behind them: other tiles of keys wait for the latter.
    __device__ int first_query() const {
        const int first = tile_ == 0 ? 0 : clamped(key() - work_.p.diagonal, 0, work_.p.queries);
        return first / Shape::rows * Shape::rows;
    }
    /// Queries whose documents or windows begin behind the tile of keys come after those that see
    /// it. Binary search.
    __device__ int last_query() const {
        int last = top_query();
        if (work_.ranges == nullptr) return last;
        for (int begin = first_; begin <= last;) {
            const int middle = begin + (last - begin) / (2 * Shape::rows) * Shape::rows;
            if (visible(middle).begin < key() + key_rows) {
                begin = middle + Shape::rows;
            } else {
                last = middle - Shape::rows;
            }
        }
        return last;
    }

    const BackwardWork& work_;
    int origin_;
    bool done_ = false;
    int tile_ = 0;
    int sequence_ = 0;
    int group_ = 0;
    int first_ = 0;     ///< no tile of queries before it visits the tile of keys
    int unseeing_ = 0;  ///< tiles of queries from here on come last
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
        if (!iterator.done()) iterator.begin_queries();
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
