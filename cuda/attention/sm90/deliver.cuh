// The delivering warps of backward attention on sm_90a, one per computing group. They add the
// group's part of dq to fp32 sums in global memory, convert completed sums, and copy dk and dv out.
#pragma once

#include "cuda/attention/sm90/shared.cuh"

namespace gptrain::cuda::sm90 {

/// Delivers what one computing group leaves in shared memory. (The group is a template argument, so
/// that addresses cost no registers.)
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

    /// Index of the dq block among those of all heads that have sums.
    __device__ std::int64_t place() const {
        const AttentionParams& p = work_.p;
        const int head = work_.ordered() ? delivery().keys.sequence * p.heads + step().head
                                         : block_index().x * p.heads_per_group() +
                                               step().head % p.heads_per_group();
        const std::int64_t tile =
            std::int64_t{head} * work_.query_tiles + step().query / Shape::rows;
        return tile * computing_groups + group;
    }
    __device__ float* sums() const { return work_.sums + place() * dq_block_size; }

    /// The first tile of keys stores, later ones add, and the last one converts the total instead
    /// of adding.
    __device__ void deliver_queries() {
        constexpr int bytes = sizeof(shared_.sums[0]);
        const bool complete = step().has(QueryStep::complete);
        const bool first = step().turn == 0;
        if (lane_index() == 0) {
            if (!first) wait_for_turn();
            if (complete) {
                if (!first) load_previous(bytes);
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
            wait(shared_.previous_full[group], previous_parity_);
            previous_parity_ ^= 1;
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
    __device__ void load_previous(int bytes) const {
        fence_async_proxy_global();
        arrive_expect_bytes(shared_.previous_full[group], bytes);
        load_bulk(shared_.previous[group], sums(), bytes, shared_.previous_full[group]);
    }

    __device__ void store_keys() {
        const KeyTile& keys = delivery().keys;
        const int buffer = delivery().key_buffer;
        if (!work_.gradients.accumulate) {
            const auto* dk = reinterpret_cast<const std::byte*>(shared_.sums[group]);
            const std::byte* dv = shared_.v[buffer].bytes + group * mma_rows * row_bytes;
            for (int panel = 0; panel < Shape::dim / panel_columns; ++panel) {
                const BoxPlace place = {panel * panel_columns, keys.group,
                                        keys.key + group * mma_rows, keys.sequence};
                store_box(work_.dk, place, dk + panel * mma_rows * row_bytes);
                store_box(work_.dv, place, dv + panel * key_rows * row_bytes);
            }
            bulk_commit();
            bulk_wait_read<0>();
        }
        arrive(shared_.keys[buffer].empty);
        // The stores must reach memory before the next tile of keys adds to them.
        bulk_wait<0>();
    }

    /// dq = scale (previous + sums), or += in fp32. G is the type of dq.
    template <class G>
    __device__ void convert(bool first) const {
        constexpr bool by_rows = Shape::halves > 1;
        const HeadTensor& dq = work_.gradients.dq;
        const int begin = step().query + (by_rows ? group * mma_rows : 0);
        const int rows = clamped(work_.p.queries - begin, 0, mma_rows);
        G* to = dq.template head<G>(delivery().keys.sequence, step().head) +
                (begin + lane_index() / 4) * dq.row_stride + lane_index() % 4 * 2 +
                (by_rows ? 0 : group * panel_columns);
        for (int row = 0; row < rows; row += 16) {
            const int left = rows - row - lane_index() / 4;
            for (int column = 0; column < work_.dq_block_columns; column += 8) {
                const int offset =
                    column / 8 * 4 * group_threads + (row / 16 * warp_threads + lane_index()) * 4;
                auto x = *reinterpret_cast<const Vec<float, 4>*>(shared_.sums[group] + offset);
                if (!first) {
                    const auto& y =
                        *reinterpret_cast<const Vec<float, 4>*>(shared_.previous[group] + offset);
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
    int previous_parity_ = 0;
};

}  // namespace gptrain::cuda::sm90
