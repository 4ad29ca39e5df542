// Forward attention on sm_90a. Persistent blocks take tiles of queries, those with the most keys
// first. One warp loads tiles; two warpgroups compute, each 64 of the 128 queries of a tile; two
// threads copy their results out. A group starts the scores of the next tile of keys and the sums
// of the previous one before it computes the exponentials in between. The groups take turns to
// start matrix multiplies, so that one computes exponentials while the other uses the tensor cores.
#include "cuda/attention/launch.h"
#include "cuda/attention/sm90/attention.h"
#include "cuda/attention/sm90/forward_shared.cuh"
#include "tensor/dtype_switch.h"

namespace gptrain::cuda::sm90 {
namespace {

// ---- loading warp -------------------------------------------------------------------------------

__device__ inline QueryTile query_tile(const ForwardWork& work, int index, int rows, int origin) {
    if (index >= work.all_tiles) return {0, 0, 0, 0, 0, {}};
    const AttentionParams& p = work.p;
    const BlockPlace place = block_place(work.order, index);
    const int sequence = place.head / p.heads;
    const int query = place.tile * rows;
    const KeyRange visible = visible_keys(p, sequence, query, rows);
    const TileRange tiles = tiles_of(visible, origin);
    return {sequence,
            place.head % p.heads,
            query,
            origin + tiles.last * key_rows,
            tiles.last - tiles.first + 1,
            visible};
}

template <class Shape>
__device__ inline void load_tiles_in(const ForwardWork& work, ForwardShared<Shape>& shared,
                                     int origin) {
    Ring<Shape::query_buffers> query_ring;
    Ring<Shape::key_buffers> key_ring;
    for (;; query_ring.advance()) {
        const unsigned index = lane_index() == 0 ? atomic_add(work.next_tile, 1u) : 0;
        const QueryTile tile =
            query_tile(work, static_cast<int>(shuffle(index, 0)), Shape::rows, origin);
        const int at = query_ring.at();
        wait(shared.queries[at].empty, query_ring.parity() ^ 1);
        if (lane_index() == 0) {
            Barrier& full = shared.queries[at].full;
            shared.tiles[at] = tile;
            if (tile.key_tiles == 0) {
                arrive(full);
            } else {
                arrive_expect_bytes(full, sizeof(shared.q[0]));
                load_tile(shared.q[at], work.q, tile.head, tile.query, tile.sequence, full);
            }
        }
        if (tile.key_tiles == 0) return;
        const int group = work.p.group_of(tile.head);
        for (int i = 0; i < tile.key_tiles; ++i, key_ring.advance()) {
            const int key = tile.key - i * key_rows;
            const auto load = [&](auto& tiles, BufferBarriers& barriers, const TensorMap& map) {
                wait(barriers.empty, key_ring.parity() ^ 1);
                if (lane_index() == 0) {
                    arrive_expect_bytes(barriers.full, sizeof(tiles[0]));
                    load_tile(tiles[key_ring.at()], map, group, key, tile.sequence, barriers.full);
                }
                // A lane that fell behind by a whole ring would wait for the wrong phase.
                warp_barrier();
            };
            load(shared.k, shared.k_barriers[key_ring.at()], work.k);
            load(shared.v, shared.v_barriers[key_ring.at()], work.v);
        }
    }
}

// ---- storing threads ----------------------------------------------------------------------------

template <class Shape>
__device__ inline void store_results(const ForwardWork& work, ForwardShared<Shape>& shared,
                                     int group) {
    for (Ring<Shape::query_buffers> ring;; ring.advance()) {
        const int at = ring.at();
        wait(shared.queries[at].full, ring.parity());
        const QueryTile& tile = shared.tiles[at];
        if (tile.key_tiles == 0) break;
        wait(shared.results[at][group], ring.parity());
        const int row = group * mma_rows;
        for (int column = 0; column < Shape::dim; column += panel_columns) {
            store_box(work.o, {column, tile.head, tile.query + row, tile.sequence},
                      shared.q[at].bytes + column / panel_columns * shared.q[at].panel_bytes +
                          row * row_bytes);
        }
        bulk_commit();
        bulk_wait_read<0>();
        arrive(shared.queries[at].empty);
    }
    bulk_wait<0>();
}

// ---- computing warps ----------------------------------------------------------------------------

template <class Shape, Variant variant>
class ForwardGroup {
public:
    __device__ ForwardGroup(const ForwardWork& work, ForwardShared<Shape>& shared, int group)
        : work_(work), p_(work.p), shared_(shared), group_(group) {}

    __device__ void run() {
        if (group_ == 1) barrier_arrive(barrier::turn, barrier::both_groups);
        for (;; ring_.advance()) {
            wait(shared_.queries[ring_.at()].full, ring_.parity());
            if (tile().key_tiles == 0) break;
            all_keys();
            finish();
        }
        // Every arrival needs a matching wait.
        if (group_ == 0) barrier_wait(barrier::turn, barrier::both_groups);
    }

private:
    /// 64 x 128.
    using Scores = float[64];

    // Read where needed, to save registers.
    __device__ const QueryTile& tile() const { return shared_.tiles[ring_.at()]; }

    __device__ void all_keys() {
        unrolled<Shape::dim / 2>([&](int i) { o_[i] = 0; });
        maximum_[0] = maximum_[1] = -infinity;
        sum_[0] = sum_[1] = 0;
        Pieces<8> pieces;
        int key = tile().key;
        {
            Scores scores;
            multiply_scores(scores);
            const bool masked = needs_mask(tile().visible, key);
            warpgroup_wait<0>();
            pin_registers(scores);
            release(shared_.k_barriers, k_ring_);
            float rescale[2];
            softmax(scores, masked, key, rescale);
            narrow_pieces(pieces, scores);
        }
        for (int i = tile().key_tiles - 1; i > 0; --i) {
            key -= key_rows;
            Scores scores;
            float rescale[2];
            barrier_wait(barrier::turn + group_, barrier::both_groups);
            multiply_scores(scores);
            add_values(pieces);
            barrier_arrive(barrier::turn + (1 - group_), barrier::both_groups);
            const bool masked = needs_mask(tile().visible, key);
            warpgroup_wait<1>();
            pin_registers(scores);
            release(shared_.k_barriers, k_ring_);
            softmax(scores, masked, key, rescale);
            warpgroup_wait<0>();
            pin_registers(o_);
            release(shared_.v_barriers, v_ring_);
            unrolled<Shape::dim / 2>([&](int j) { o_[j] *= rescale[j / 2 % 2]; });
            narrow_pieces(pieces, scores);
        }
        add_values(pieces);
        warpgroup_wait<0>();
        pin_registers(o_);
        release(shared_.v_barriers, v_ring_);
    }

    __device__ void multiply_scores(Scores& scores) {
        wait(shared_.k_barriers[k_ring_.at()].full, k_ring_.parity());
        multiply_transposed(scores, shared_.q[ring_.at()], group_ * mma_rows,
                            shared_.k[k_ring_.at()], 0);
    }
    __device__ void add_values(const Pieces<8>& pieces) {
        wait(shared_.v_barriers[v_ring_.at()].full, v_ring_.parity());
        multiply_accumulate(o_, pieces, shared_.v[v_ring_.at()], 0);
    }
    __device__ void release(BufferBarriers (&barriers)[Shape::key_buffers],
                            Ring<Shape::key_buffers>& ring) const {
        if (lane_index() == 0) arrive(barriers[ring.at()].empty);
        ring.advance();
    }

    /// First query of this warp's rows.
    __device__ int first_row() const {
        return tile().query + group_ * mma_rows + warp_index() % group_warps * 16;
    }

    /// scores = exp(scale (scores - maximum)), with the maximum over all keys so far; earlier sums
    /// must be multiplied by `rescale`.
    __device__ void softmax(Scores& scores, bool masked, int key, float (&rescale)[2]) {
        if (masked) mask(scores, key);
        unrolled<2>([&](int h) {
            float tops[2] = {maximum_[h], maximum_[h]};
            unrolled<32>([&](int j) {
                tops[j % 2] = maximum(tops[j % 2], scores[j / 2 * 4 + 2 * h + j % 2]);
            });
            float top = maximum(tops[0], tops[1]);
            top = maximum(top, shuffle_xor(top, 1));
            top = maximum(top, shuffle_xor(top, 2));
            const float base = top == -infinity ? 0 : top * p_.scale_log2;
            rescale[h] = exp2_approx(fma(maximum_[h], p_.scale_log2, -base));
            maximum_[h] = top;
            float sums[2] = {sum_[h] * rescale[h], 0};
            unrolled<32>([&](int j) {
                float& score = scores[j / 2 * 4 + 2 * h + j % 2];
                score = exp2_approx(fma(score, p_.scale_log2, -base));
                sums[j % 2] += score;
            });
            sum_[h] = sums[0] + sums[1];
        });
        if constexpr (variant == Variant::dropout) drop(scores, key);
    }

    __device__ void mask(Scores& scores, int key) const {
        unrolled<2>([&](int h) {
            const KeyBounds bounds =
                key_bounds(p_, tile().sequence, first_row() + lane_index() / 4 + 8 * h)
                    .from(key + lane_index() % 4 * 2);
            unrolled<32>([&](int j) {
                if (!bounds.sees(j / 2 * 8 + j % 2)) scores[j / 2 * 4 + 2 * h + j % 2] = -infinity;
            });
        });
    }

    __device__ void drop(Scores& scores, int key) const {
        const KeyDropout dropout(p_, tile().sequence, tile().head, true);
        unrolled<2>([&](int half) {
            const std::uint32_t kept = dropout.rows<8>(first_row(), key + 64 * half);
            unrolled<32>([&](int i) {
                if ((kept >> i & 1) == 0) scores[32 * half + i] = 0;
            });
        });
    }

    /// o overwrites this group's rows of q.
    __device__ void finish() const {
        const float scale = variant == Variant::dropout ? p_.dropout.scale : 1;
        float factors[2];
        unrolled<2>([&](int h) {
            float sum = sum_[h];
            sum += shuffle_xor(sum, 1);
            sum += shuffle_xor(sum, 2);
            const bool none = maximum_[h] == -infinity;
            factors[h] = none ? 0 : scale / sum;
            const int query = first_row() + lane_index() / 4 + 8 * h;
            if (lane_index() % 4 == 0 && query < p_.queries) {
                p_.lse[p_.lse_row(tile().sequence, tile().head) + query] =
                    none ? -infinity : fma(maximum_[h], p_.scale, logarithm(sum));
            }
        });
        if constexpr (variant == Variant::amax)
            update_amax(work_.amax, first_row(), p_.queries, o_, factors);
        auto& q = shared_.q[ring_.at()];
        barrier_wait(barrier::group + group_, group_threads);
        store_rounded(q.bytes + group_ * mma_rows * row_bytes, q.panel_bytes, o_, factors[0],
                      factors[1]);
        fence_async_proxy();
        warp_barrier();
        if constexpr (variant == Variant::rows8) {
            const int first = first_row();
            store_rows8(work_.o8, q, first - tile().query,
                        std::int64_t{tile().sequence} * p_.queries + first,
                        tile().head * Shape::dim, p_.queries - first);
        }
        if (lane_index() == 0) arrive(shared_.results[ring_.at()][group_]);
    }

    const ForwardWork& work_;
    const AttentionParams& p_;
    ForwardShared<Shape>& shared_;
    int group_;
    Ring<Shape::query_buffers> ring_;
    Ring<Shape::key_buffers> k_ring_;
    Ring<Shape::key_buffers> v_ring_;
    float o_[Shape::dim / 2];
    // For rows lane / 4 and lane / 4 + 8.
    float maximum_[2];  ///< of the unscaled scores so far
    float sum_[2];      ///< over the columns of this lane
};

template <class Shape, Variant variant>
__global__ void __launch_bounds__(threads_of_block, 1)
    forward_kernel(const __grid_constant__ ForwardWork work) {
    auto& shared = shared_memory<ForwardShared<Shape>>();
    if (thread_index() == 0) {
        for (BufferBarriers& barriers : shared.queries)
            init(barriers, computing_groups);
        for (BufferBarriers& barriers : shared.k_barriers)
            init(barriers, computing_groups * group_warps);
        for (BufferBarriers& barriers : shared.v_barriers)
            init(barriers, computing_groups * group_warps);
        for (auto& groups : shared.results)
            for (Barrier& barrier : groups)
                cuda::init(barrier, group_warps);
        fence_barriers();
    }
    block_barrier();
    const int group = warp_index() / group_warps;
    if (group == 0) {
        lower_registers<Shape::loader_registers>();
        const int warp = warp_index();
        if (warp == 0) {
            load_tiles_in<Shape>(work, shared, key_origin(work.p, variant == Variant::dropout));
        } else if (warp <= computing_groups && lane_index() == 0) {
            store_results<Shape>(work, shared, warp - 1);
        }
    } else {
        raise_registers<Shape::compute_registers>();
        ForwardGroup<Shape, variant>(work, shared, group - 1).run();
    }
}

// ---- host ---------------------------------------------------------------------------------------

template <class Shape>
void run_forward(const AttentionForward& args, const OpContext& context) {
    ForwardWork work;
    work.p = attention_params(args);
    work.q = tensor_map(args.q, Shape::rows);
    work.k = tensor_map(args.k, key_rows);
    work.v = tensor_map(args.v, key_rows);
    work.o = tensor_map(args.o, mma_rows);
    work.order = block_order(work.p, work.p.queries, Shape::rows, work.p.heads, true);
    work.all_tiles = static_cast<int>(work.order.blocks());
    work.amax = pointer_or_null<float>(args.amax);
    work.next_tile = context.scratch.take<unsigned>(1);
    set_bytes(work.next_tile, 0, sizeof(unsigned), context.stream);
    static_assert(sizeof(ForwardShared<Shape>) <= shared_bytes_of_block);
    auto* kernel =
        kernel_of(variant_of(work.p, work.amax), forward_kernel<Shape, Variant::plain>,
                  forward_kernel<Shape, Variant::dropout>, forward_kernel<Shape, Variant::amax>);
    if constexpr (Shape::dim == fp8_block) {
        work.o8 = Fp8Rows(args.o8);
        if (!args.o8.empty() && serves_fp8(args)) kernel = forward_kernel<Shape, Variant::rows8>;
    }
    launch(context.stream,
           {.blocks = std::min<std::int64_t>(work.order.blocks(), context.device.multiprocessors),
            .threads = threads_of_block,
            .shared_bytes = sizeof(ForwardShared<Shape>)},
           kernel, work);
}

}  // namespace

bool covers_attention(const AttentionForward& args) {
    if (args.changes_scores()) return false;
    const auto covered = [](const Tensor& tensor) {
        return tensor.dtype() == DType::bf16 && aligned_16<Bf16>(HeadTensor(tensor));
    };
    return (args.q.size(3) == 64 || args.q.size(3) == 128) && covered(args.q) && covered(args.k) &&
           covered(args.v) && covered(args.o);
}

void attention_forward(const AttentionForward& args, const OpContext& context) {
    GPTRAIN_CHECK(covers_attention(args), "sm90::attention_forward does not support this op");
    args.q.size(3) == 64 ? run_forward<ForwardShape<64>>(args, context)
                         : run_forward<ForwardShape<128>>(args, context);
}

}  // namespace gptrain::cuda::sm90
