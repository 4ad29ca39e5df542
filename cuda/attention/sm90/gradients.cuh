// The computing warpgroups of backward attention on sm_90a, each for 64 of the 128 keys of a tile.
// They compute scores and their gradients as [keys, queries], so that the registers already form
// the operand for dv and dk. dq of a tile of queries needs the gradients of both groups and goes
// through shared memory. Shared memory traffic limits a tile of queries about as much as its matrix
// multiplies do, so operands come from registers where possible.
#pragma once

#include "cuda/attention/sm90/turns.cuh"

namespace gptrain::cuda::sm90 {

template <class Shape, Variant variant>
class Gradients {
public:
    __device__ Gradients(const BackwardWork& work, BackwardShared<Shape>& shared, int group)
        : work_(work), p_(work.p), shared_(shared), group_(group) {}

    __device__ void run() {
        if constexpr (!whole_tiles)
            barrier_arrive(barrier::scores_empty + (1 - group()), barrier::both_groups);
        for (;; key_ring_.advance()) {
            wait(shared_.keys[key_ring_.at()].full, key_ring_.parity());
            const int kind = uniform ? shuffle(static_cast<int>(keys().kind), 0) : keys().kind;
            if (kind == KeyTile::stop) break;
            unrolled<Shape::dim / 2>([&](int i) { dk_[i] = dv_[i] = 0; });
            if (kind == KeyTile::seen) all_queries();
            deliver_keys();
        }
        // Every arrival needs a matching wait.
        if constexpr (!whole_tiles)
            barrier_wait(barrier::scores_empty + group(), barrier::both_groups);
        wait_for(buffer());
        if (is_first_thread()) delivery() = {Delivery::stop, {}, 0, {}};
        hand_over();
        wait_for(1 - buffer());
    }

private:
    static constexpr bool with_dropout = variant == Variant::dropout;

    /// True if the compiler is shown that all lanes of a warp have the same group and take the same
    /// branches. It then computes descriptors in uniform registers, with fewer instructions, but
    /// keeps the group in one more register, for which there is no room with dropout and D = 128.
    static constexpr bool uniform = !(with_dropout && Shape::dim == 128);

    /// True if a tile of queries is a single half. d_scores then has a buffer for the next tile, so
    /// one barrier a tile is enough.
    static constexpr bool whole_tiles = Shape::halves == 1;
    /// Groups of matrix multiplies in flight beside work that needs registers: dv beside the
    /// gradients of the scores of a whole tile, dk beside the delivery of dq.
    static constexpr int beside = uniform ? 1 : 0;

    /// 64 x 64.
    using Scores = float[32];

    /// Statistics of this lane's columns of 64 queries; read at once if there are enough registers.
    class Statistics {
    public:
        __device__ Statistics(const Vec<RowStatistics, 2>* of_step, int half)
            : first_(of_step + half * mma_rows / 2 + lane_index() % 4) {
            if constexpr (at_once) unrolled<8>([&](int j) { all_[j] = first_[4 * j]; });
        }
        /// The statistics of columns 8 j + 2 (lane % 4) and the next one.
        __device__ Vec<RowStatistics, 2> columns(int j) const {
            return at_once ? all_[j] : first_[4 * j];
        }

    private:
        static constexpr bool at_once = Shape::dim == 64;
        const Vec<RowStatistics, 2>* first_;
        Vec<RowStatistics, 2> all_[8];
    };

    __device__ void all_queries() {
        for (bool more = true; more; ring_.advance()) {
            // Local and initialized: otherwise the compiler keeps them from one tile to the next.
            Scores scores[Shape::halves] = {};
            Scores dq;
            Pieces<4> d_pieces;
            wait(shared_.queries[ring_.at()].full, ring_.parity());
            add_halves(scores, d_pieces);
            barrier_wait(barrier::scores_full, barrier::both_groups);
            multiply_dq(dq);
            add_dk(d_pieces, Shape::halves - 1);
            more = !step().has(QueryStep::last);
            warpgroup_wait<beside>();
            pin_registers(dq);
            if constexpr (!whole_tiles)
                barrier_arrive(barrier::scores_empty + (1 - group()), barrier::both_groups);
            deliver_queries(dq);
            warpgroup_wait<0>();
            pin_registers(dk_);
            pin_registers(dv_);
            if (lane_index() == 0) arrive(shared_.queries[ring_.at()].empty);
        }
    }

    // Computed or read where needed, to save registers.
    __device__ int group() const { return uniform ? group_ : thread_index() / group_threads - 1; }
    __device__ const KeyTile& keys() const { return shared_.key_tiles[key_ring_.at()]; }
    __device__ const QueryStep& step() const { return shared_.steps[ring_.at()]; }

    __device__ void multiply_scores(Scores& scores, int half) const {
        multiply_transposed(scores, shared_.k[key_ring_.at()], group() * mma_rows,
                            shared_.q[ring_.at()], half * mma_rows);
    }
    __device__ void multiply_d_scores(Scores& d_scores, int half) const {
        multiply_transposed(d_scores, shared_.v[key_ring_.at()], group() * mma_rows,
                            shared_.d_o[ring_.at()], half * mma_rows);
    }

    /// Starts dv of a tile of queries, and dk but for the last half; `d_pieces` gets the operand of
    /// that. Stores the gradients of the scores to shared memory. The second half's scores are
    /// complete by the time the first half's have been used.
    __device__ void add_halves(Scores (&scores)[Shape::halves], Pieces<4>& d_pieces) {
        Scores d_scores;
        multiply_scores(scores[0], 0);
        multiply_d_scores(d_scores, 0);
        if constexpr (whole_tiles) {
            add_dv<0, 1, beside>(scores[0], d_scores, d_pieces);
            store_gradients(shared_.d_scores[ring_.at()], d_pieces);
        } else {
            multiply_scores(scores[1], 1);
            Pieces<4> first_pieces;
            add_dv<0, 2, 2>(scores[0], d_scores, first_pieces);
            barrier_wait(barrier::scores_empty + group(), barrier::both_groups);
            store_gradients(shared_.d_scores[0], first_pieces);
            add_dk(first_pieces, 0);
            Scores d_scores_1;
            multiply_d_scores(d_scores_1, 1);
            add_dv<1, 3, 1>(scores[1], d_scores_1, d_pieces);
            store_gradients(shared_.d_scores[1], d_pieces);
        }
        fence_async_proxy();
    }

    __device__ void add_dk(const Pieces<4>& d_pieces, int half) {
        multiply_accumulate(dk_, d_pieces, shared_.q[ring_.at()], half * mma_rows);
    }

    /// Starts dv of 64 queries; `d_pieces` gets the rounded gradients of their scores.
    /// `pending_at_scores` and `pending_at_d_scores` are the numbers of groups of matrix multiplies
    /// that may still be in flight when the scores and d_scores are used.
    template <int half, int pending_at_scores, int pending_at_d_scores>
    __device__ void add_dv(Scores& scores, Scores& d_scores, Pieces<4>& d_pieces) {
        const std::uint32_t kept = kept_scores(half);
        const bool masked = step().has(QueryStep::masked);
        const Statistics statistics(shared_.statistics[ring_.at()], half);
        warpgroup_wait<pending_at_scores>();
        pin_registers(scores);
        if (masked) mask(scores, step().query + half * mma_rows);
        Pieces<4> pieces;
        probabilities(scores, statistics, kept, pieces);
        multiply_accumulate(dv_, pieces, shared_.d_o[ring_.at()], half * mma_rows);
        warpgroup_wait<pending_at_d_scores>();
        pin_registers(d_scores);
        gradients(scores, statistics, kept, d_scores);
        narrow_pieces(d_pieces, d_scores);
    }

    /// First key of this warp's rows of the scores.
    __device__ int first_key_row() const {
        return keys().key + group() * mma_rows + warp_index() % group_warps * 16;
    }

    /// Which scores of a half dropout keeps, one bit each.
    __device__ std::uint32_t kept_scores(int half) const {
        if constexpr (!with_dropout) return ~0u;
        const KeyDropout dropout(p_, keys().sequence, step().head, true);
        return dropout.columns<8>(first_key_row(), step().query + half * mma_rows);
    }

    /// Turns scores into probabilities; `pieces` gets the kept ones, rounded.
    __device__ void probabilities(Scores& scores, const Statistics& statistics, std::uint32_t kept,
                                  Pieces<4>& pieces) const {
        unrolled<8>([&](int j) {
            const Vec<RowStatistics, 2> queries = statistics.columns(j);
            unrolled<4>([&](int i) {
                float& score = scores[4 * j + i];
                score = exp2_approx(fma(score, p_.scale_log2, -queries[i % 2].lse_log2));
            });
            unrolled<2>([&](int h) {
                const float low = kept >> (4 * j + 2 * h) & 1 ? scores[4 * j + 2 * h] : 0;
                const float high = kept >> (4 * j + 2 * h + 1) & 1 ? scores[4 * j + 2 * h + 1] : 0;
                pieces[j / 2][j % 2 * 2 + h] = narrow2<Bf16>(low, high);
            });
        });
    }

    __device__ void mask(Scores& scores, int query) const {
        const int key = first_key_row() + lane_index() / 4;
        query += lane_index() % 4 * 2;
        unrolled<2>([&](int h) {
            const int row = key + 8 * h;
            const bool valid = row >= 0 && row < p_.keys;
            const int first_query = valid ? row - p_.diagonal - query : INT32_MAX;
            unrolled<16>([&](int i) {
                const int column = i / 2 * 8 + i % 2;
                if (column < first_query) scores[i / 2 * 4 + h * 2 + i % 2] = -infinity;
            });
        });
        if (p_.first_visible == nullptr) return;
        unrolled<16>([&](int i) {
            const int column = std::min(query + i / 2 * 8 + i % 2, p_.queries - 1);
            const int first = first_key(p_, keys().sequence, column);
            unrolled<2>([&](int h) {
                if (key + 8 * h < first) scores[i / 2 * 4 + h * 2 + i % 2] = -infinity;
            });
        });
    }

    /// Turns scores and d_scores into the gradients of the scaled scores.
    __device__ void gradients(const Scores& scores, const Statistics& statistics,
                              std::uint32_t kept, Scores& d_scores) const {
        unrolled<8>([&](int j) {
            const Vec<RowStatistics, 2> queries = statistics.columns(j);
            unrolled<4>([&](int i) {
                float d = d_scores[4 * j + i];
                if constexpr (with_dropout) d = kept >> (4 * j + i) & 1 ? d * p_.dropout.scale : 0;
                d_scores[4 * j + i] = scores[4 * j + i] * (d - queries[i % 2].delta);
            });
        });
    }

    /// Stores them as [queries, keys].
    __device__ void store_gradients(Tile<mma_rows, key_rows>& to, const Pieces<4>& pieces) const {
        const int lane = lane_index();
        const int row = lane % 8 + lane / 16 * 8;
        const int column = warp_index() % group_warps * 32 + lane / 8 % 2 * 16;
        std::byte* place =
            to.bytes + group() * to.panel_bytes + swizzle_128(row * row_bytes + column);
        unrolled<4>([&](int k) { store_tiles_transposed(place + k * 16 * row_bytes, pieces[k]); });
    }

    /// This group's block of dq.
    __device__ void multiply_dq(Scores& dq) const {
        const int at = whole_tiles ? ring_.at() : Shape::dq_row(group()) / mma_rows;
        const Rows left(shared_.d_scores[at], 0);
        const Features right(shared_.k[key_ring_.at()], Shape::dq_column(group()));
        warpgroup_fence();
        unrolled<key_rows / 16>([&](int k) {
            warpgroup_multiply(dq, left.features(16 * k), right.rows(16 * k), k > 0);
        });
        warpgroup_commit();
    }

    // ---- hand-over to the delivering warp ----

    /// True for the group's first thread, which alone writes the delivery and reads its tile and
    /// step.
    __device__ bool is_first_thread() const { return thread_index() % group_threads == 0; }
    /// Steps take turns with the buffers; a tile of keys uses that of the next step.
    __device__ int buffer() const { return ring_.at(); }
    __device__ Delivery& delivery() const { return shared_.deliveries[group()][buffer()]; }
    __device__ float* results() const { return shared_.results[group()][buffer()]; }
    __device__ void wait_for(int buffer) const {
        barrier_wait(barrier::delivery_empty + delivery_buffers * group() + buffer,
                     barrier::group_and_warp);
    }
    __device__ void hand_over() const {
        fence_async_proxy();
        barrier_arrive(barrier::delivery_full + delivery_buffers * group() + buffer(),
                       barrier::group_and_warp);
    }

    __device__ void deliver_queries(Scores& dq) const {
        // Read before the wait: afterwards other lanes may release the step's buffer.
        const int head = step().head;
        const int query = step().query;
        const bool complete = step().has(QueryStep::complete);
        if (complete && step().turn > 0) add_previous(dq);
        wait_for(buffer());
        if (complete) {
            finish_queries(dq, head, query);
        } else {
            float* to = results() + thread_index() % group_threads * 4;
            unrolled<8>([&](int i) {
                *reinterpret_cast<Vec<float, 4>*>(to + i * 4 * group_threads) = {
                    dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]};
            });
        }
        if (is_first_thread())
            delivery() = {complete ? Delivery::queries : Delivery::query_sums, keys(), 0, step()};
        hand_over();
    }

    /// Waits for the turn, then adds the sums of all earlier tiles of keys.
    __device__ void add_previous(Scores& dq) const {
        const DqTurn turn(work_, keys(), step(), Shape::rows, group());
        turn.begin();
        const float* from = turn.sums() + thread_index() % group_threads * 4;
        unrolled<8>([&](int i) {
            const auto x =
                load_once(reinterpret_cast<const Vec<float, 4>*>(from + i * 4 * group_threads));
            unrolled<4>([&](int j) { dq[4 * i + j] += x[j]; });
        });
    }

    /// Gradients with an amax are no part of a sum.
    __device__ bool accumulates() const {
        return variant != Variant::amax && work_.gradients.accumulate;
    }

    __device__ void finish_queries(const Scores& dq, int head, int query) const {
        if (accumulates()) {
            const HeadTensor& to = work_.gradients.dq;
            float* rows = to.template head<float>(keys().sequence, head);
            add_rows(rows + Shape::dq_column(group()), to.row_stride,
                     query + Shape::dq_row(group()), p_.queries, dq, p_.scale);
        } else {
            store_rounded(reinterpret_cast<std::byte*>(results()), 0, dq, p_.scale, p_.scale);
            add_to_amax(work_.dqk_amax, query + Shape::dq_row(group()), p_.queries, dq, p_.scale);
        }
    }

    /// dv overwrites this group's rows of v.
    __device__ void deliver_keys() const {
        const float v_scale = with_dropout ? p_.dropout.scale : 1;
        wait_for(buffer());
        if (accumulates()) {
            add_keys(work_.gradients.dk, dk_, p_.scale);
            add_keys(work_.gradients.dv, dv_, v_scale);
        } else {
            auto& v = shared_.v[key_ring_.at()];
            constexpr int panel_bytes = mma_rows * row_bytes;
            store_rounded(v.bytes + group() * panel_bytes, v.panel_bytes, dv_, v_scale, v_scale);
            store_rounded(reinterpret_cast<std::byte*>(results()), panel_bytes, dk_, p_.scale,
                          p_.scale);
            const int first = keys().key + group() * mma_rows;
            add_to_amax(work_.dv_amax, first, p_.keys, dv_, v_scale);
            add_to_amax(work_.dqk_amax, first, p_.keys, dk_, p_.scale);
        }
        if (is_first_thread()) delivery() = {Delivery::key_values, keys(), key_ring_.at(), {}};
        hand_over();
    }

    __device__ void add_keys(const HeadTensor& to, const float (&c)[Shape::dim / 2],
                             float factor) const {
        add_rows(to.template head<float>(keys().sequence, keys().group), to.row_stride,
                 keys().key + group() * mma_rows, p_.keys, c, factor);
    }

    /// Adds rows of a head from `begin` on, as stored, to an amax that is wanted.
    template <int n>
    __device__ void add_to_amax(float* amax, int begin, int rows, const float (&c)[n],
                                float factor) const {
        if constexpr (variant == Variant::amax) {
            if (amax == nullptr) return;
            const int first = begin + warp_index() % group_warps * 16;
            update_amax(amax, first, rows, c, {factor, factor});
        }
    }

    /// Adds c to fp32 rows of a head from `begin` on; `rows` is how many the head has.
    template <int n>
    __device__ void add_rows(float* head, std::int64_t stride, int begin, int rows,
                             const float (&c)[n], float factor) const {
        const int first = begin + warp_index() % group_warps * 16 + lane_index() / 4;
        unrolled<2>([&](int h) {
            const int row = first + 8 * h;
            if (row < 0 || row >= rows) return;
            float* place = head + row * stride + lane_index() % 4 * 2;
            unrolled<n / 4>([&](int j) {
                add_pair(place + 8 * j, c[4 * j + 2 * h] * factor, c[4 * j + 2 * h + 1] * factor);
            });
        });
    }

    const BackwardWork& work_;
    const AttentionParams& p_;
    BackwardShared<Shape>& shared_;
    int group_;
    Ring<Shape::key_buffers> key_ring_;
    Ring<Shape::query_buffers> ring_;
    float dk_[Shape::dim / 2];
    float dv_[Shape::dim / 2];
};

}  // namespace gptrain::cuda::sm90
