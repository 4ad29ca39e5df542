// What the warps of backward attention on sm_90a hand to each other, and the order of the work.
//
// One warp copies tiles in; two warpgroups compute, each for 64 of the 128 keys of a tile: scores
// and their gradients as [keys, queries], so that they are in registers as the operand that dv and
// dk need; dq of a tile of queries needs the gradients of both, through shared memory. Two warps,
// one for each of these groups, add what they leave of dq to fp32 sums in global memory, convert
// what is complete, and copy dk and dv out.
//
// Tiles of keys are visited from the last to the first, tiles of queries from the diagonal on.
// Either a block has all tiles of keys of a group of heads, and alone adds to its dq; or one tile,
// and adds in its turn: then at no time do two blocks that began together want the same tile of dq.
#pragma once

#include "cuda/attention_gradient.cuh"
#include "cuda/attention_sm90.cuh"

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

/// The order of a block's work: tiles of keys, and for each the tiles of queries that visit it,
/// head by head. So written that registers are few.
template <class Shape>
class Walk {
public:
    __device__ Walk(const BackwardWork& work, int origin)
        : work_(work), origin_(origin), unit_(block_index().x) {
        begin_unit();
    }
    __device__ bool done() const { return unit_ >= work_.units; }
    __device__ void next_keys() {
        if (!work_.ordered() && tile_ > 0) {
            --tile_;
        } else {
            unit_ += grid_blocks().x;
            begin_unit();
        }
    }
    /// Its kind is still open.
    __device__ KeyTile keys() const { return {KeyTile::unseen, sequence_, group_, key()}; }

    __device__ void begin_queries() {
        step_.head = group_ * work_.p.heads_per_group();
        step_.query = first_query();
    }
    /// Moves on to the next step, from where it is; false where there is none.
    __device__ bool find() {
        const AttentionParams& p = work_.p;
        for (; step_.head < (group_ + 1) * p.heads_per_group();
             ++step_.head, step_.query = first_query()) {
            for (; step_.query < p.queries; step_.query += Shape::rows) {
                const KeyRange range = visible(step_.query);
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
    __device__ void leave_step() { step_.query += Shape::rows; }

private:
    __device__ void begin_unit() {
        const int pair = work_.ordered() ? unit_ / work_.key_tiles : unit_;
        tile_ = work_.key_tiles - 1 - (work_.ordered() ? unit_ % work_.key_tiles : 0);
        sequence_ = pair / work_.p.groups;
        group_ = pair % work_.p.groups;
    }
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
    /// Queries that see nothing visit the first tile.
    __device__ int first_query() const {
        const int first = tile_ == 0 ? 0 : clamped(key() - work_.p.diagonal, 0, work_.p.queries);
        return first / Shape::rows * Shape::rows;
    }

    const BackwardWork& work_;
    int origin_;
    int unit_;
    int tile_ = 0;
    int sequence_ = 0;
    int group_ = 0;
    QueryStep step_{};
};

// ---- the thread that copies in
// -------------------------------------------------------------------

template <class Shape>
__device__ inline void load_keys(const BackwardWork& work, BackwardShared<Shape>& shared,
                                 const KeyTile& tile, Ring<Shape::key_buffers>& ring) {
    const int at = ring.at();
    Barrier& full = shared.keys[at].full;
    wait(shared.keys[at].empty, ring.parity() ^ 1);
    ring.advance();
    shared.key_tiles[at] = tile;
    if (tile.kind != KeyTile::seen) return arrive(full);
    arrive_expecting(full, 2 * static_cast<int>(sizeof(shared.k[0])));
    load_tile(shared.k[at], work.k, tile.group, tile.key, tile.sequence, full);
    load_tile(shared.v[at], work.v, tile.group, tile.key, tile.sequence, full);
}

template <class Shape>
__device__ inline void load_queries(const BackwardWork& work, BackwardShared<Shape>& shared,
                                    int sequence, const QueryStep& step,
                                    Ring<Shape::query_buffers>& ring) {
    constexpr int numbers_bytes = sizeof(shared.numbers[0]);
    const int at = ring.at();
    Barrier& full = shared.queries[at].full;
    wait(shared.queries[at].empty, ring.parity() ^ 1);
    ring.advance();
    shared.steps[at] = step;
    arrive_expecting(full, 2 * static_cast<int>(sizeof(shared.q[0])) + numbers_bytes);
    load_tile(shared.q[at], work.q, step.head, step.query, sequence, full);
    load_tile(shared.d_o[at], work.d_o, step.head, step.query, sequence, full);
    const int row = sequence * work.p.heads + step.head;
    load_bulk(shared.numbers[at],
              work.numbers + std::int64_t{row} * work.padded_queries + step.query, numbers_bytes,
              full);
}

template <class Shape>
__device__ inline void load_tiles_in(const BackwardWork& work, BackwardShared<Shape>& shared,
                                     int origin) {
    Ring<Shape::key_buffers> key_ring;
    Ring<Shape::query_buffers> query_ring;
    for (Walk<Shape> walk(work, origin);; walk.next_keys()) {
        KeyTile keys = walk.keys();
        walk.begin_queries();
        bool more = !walk.done() && walk.find();
        keys.kind = walk.done() ? KeyTile::stop : more ? KeyTile::seen : KeyTile::unseen;
        load_keys<Shape>(work, shared, keys, key_ring);
        if (keys.kind == KeyTile::stop) return;
        while (more) {
            QueryStep step = walk.step();
            walk.leave_step();
            more = walk.find();
            if (!more) step.flags |= QueryStep::last;
            load_queries<Shape>(work, shared, keys.sequence, step, query_ring);
        }
    }
}

// ---- the warps that deliver ---------------------------------------------------------------------

/// Delivers what one computing group leaves in shared memory. (The group is a constant, so that
/// addresses cost no registers.)
template <class Shape, int group>
class Deliverer {
public:
    __device__ Deliverer(const BackwardWork& work, BackwardShared<Shape>& shared)
        : work_(work), shared_(shared) {}

    __device__ void run() {
        for (;;) {
            barrier_arrive(barrier::delivery_empty + group, barrier::group_and_warp);
            barrier_wait(barrier::delivery_full + group, barrier::group_and_warp);
            if (delivery().kind == Delivery::stop) return;
            if (delivery().kind == Delivery::query_sums) {
                deliver_queries();
            } else if (lane_index() == 0) {
                store_keys();
            }
            warp_barrier();
        }
    }

private:
    __device__ const Delivery& delivery() const { return shared_.deliveries[group]; }
    __device__ const QueryStep& step() const { return delivery().step; }

    /// Index of the share among those of all heads that have sums.
    __device__ std::int64_t place() const {
        const AttentionParams& p = work_.p;
        const int head = work_.ordered() ? delivery().keys.sequence * p.heads + step().head
                                         : block_index().x * p.heads_per_group() +
                                               step().head % p.heads_per_group();
        const std::int64_t tile =
            std::int64_t{head} * work_.query_tiles + step().query / Shape::rows;
        return tile * computing_groups + group;
    }
    __device__ float* sums() const { return work_.sums + place() * share; }

    /// The first tile of keys writes, the others add, the last one converts what it would add to.
    __device__ void deliver_queries() {
        constexpr int bytes = sizeof(shared_.sums[0]);
        const bool complete = step().has(QueryStep::complete);
        const bool first = step().turn == 0;
        if (lane_index() == 0) {
            if (!first) wait_for_turn();
            if (complete) {
                if (!first) load_before(bytes);
            } else {
                fence_async_proxy_global();
                first ? store_bulk(sums(), shared_.sums[group], bytes)
                      : add_bulk(sums(), shared_.sums[group], bytes);
                bulk_commit();
                end_turn();
            }
        }
        warp_barrier();
        if (!complete) return;
        if (!first) {
            wait(shared_.before_full[group], before_parity_);
            before_parity_ ^= 1;
        }
        work_.gradients.accumulate ? convert<float>(first) : convert<Bf16>(first);
    }

    __device__ void wait_for_turn() const {
        if (!work_.ordered()) return;
        const unsigned* turn = work_.turns + place();
        while (load_acquire(turn) != static_cast<unsigned>(step().turn))
            spin_pause();
    }
    __device__ void end_turn() const {
        if (!work_.ordered()) return bulk_wait_read<0>();
        bulk_wait<0>();
        fence_async_proxy_global();
        store_release(work_.turns + place(), static_cast<unsigned>(step().turn) + 1);
    }
    __device__ void load_before(int bytes) const {
        fence_async_proxy_global();
        arrive_expecting(shared_.before_full[group], bytes);
        load_bulk(shared_.before[group], sums(), bytes, shared_.before_full[group]);
    }

    __device__ void store_keys() {
        const KeyTile& keys = delivery().keys;
        const int buffer = delivery().key_buffer;
        if (!work_.gradients.accumulate) {
            const auto* dk = reinterpret_cast<const std::byte*>(shared_.sums[group]);
            const std::byte* dv = shared_.v[buffer].bytes + group * product_rows * row_bytes;
            for (int panel = 0; panel < Shape::dim / panel_columns; ++panel) {
                const BoxPlace place = {panel * panel_columns, keys.group,
                                        keys.key + group * product_rows, keys.sequence};
                store_box(work_.dk, place, dk + panel * product_rows * row_bytes);
                store_box(work_.dv, place, dv + panel * key_rows * row_bytes);
            }
            bulk_commit();
            bulk_wait_read<0>();
        }
        arrive(shared_.keys[buffer].empty);
        // What was added is in memory before the next tile of keys adds to it.
        bulk_wait<0>();
    }

    /// dq = scale (before + sums), or += in fp32. G is the type of dq.
    template <class G>
    __device__ void convert(bool first) const {
        constexpr bool by_rows = Shape::halves > 1;
        const HeadTensor& dq = work_.gradients.dq;
        const int begin = step().query + (by_rows ? group * product_rows : 0);
        const int rows = clamped(work_.p.queries - begin, 0, product_rows);
        G* to = dq.template head<G>(delivery().keys.sequence, step().head) +
                (begin + lane_index() / 4) * dq.row_stride + lane_index() % 4 * 2 +
                (by_rows ? 0 : group * panel_columns);
        for (int row = 0; row < rows; row += 16) {
            const int left = rows - row - lane_index() / 4;
            for (int column = 0; column < work_.share_columns; column += 8) {
                const int offset =
                    column / 8 * 4 * group_threads + (row / 16 * warp_threads + lane_index()) * 4;
                auto x = *reinterpret_cast<const Vec<float, 4>*>(shared_.sums[group] + offset);
                if (!first) {
                    const auto& y =
                        *reinterpret_cast<const Vec<float, 4>*>(shared_.before[group] + offset);
                    unrolled<4>([&](int e) { x[e] += y[e]; });
                }
                if (left > 0) write_pair(to + column, x[0], x[1]);
                if (left > 8) write_pair(to + 8 * dq.row_stride + column, x[2], x[3]);
            }
            to += 16 * dq.row_stride;
        }
    }

    __device__ void write_pair(Bf16* to, float low, float high) const {
        const float scale = work_.p.scale;
        store(reinterpret_cast<std::uint32_t*>(to), narrow2<Bf16>(low * scale, high * scale));
    }
    __device__ void write_pair(float* to, float low, float high) const {
        add_pair(to, low * work_.p.scale, high * work_.p.scale);
    }

    const BackwardWork& work_;
    BackwardShared<Shape>& shared_;
    int before_parity_ = 0;
};

}  // namespace gptrain::cuda::sm90
