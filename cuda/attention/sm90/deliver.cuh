// The delivering warps of backward attention on sm_90a, one per computing group. They add the
// group's part of dq to fp32 sums in global memory, and copy completed dq, dk and dv out.
#pragma once

#include "cuda/attention/sm90/turns.cuh"

namespace gptrain::cuda::sm90 {

/// Delivers what one computing group leaves in shared memory. (The group is a template argument, so
/// that addresses cost no registers.)
template <class Shape, int group>
class Deliverer {
public:
    __device__ Deliverer(const BackwardWork& work, BackwardShared<Shape>& shared)
        : work_(work), shared_(shared) {}

    __device__ void run() {
        for (int i = 0; i < delivery_buffers; ++i)
            barrier_arrive(barrier::delivery_empty + buffer_of_group(i), barrier::group_and_warp);
        for (;;) {
            const int buffer = buffer_of_group(ring_.at());
            barrier_wait(barrier::delivery_full + buffer, barrier::group_and_warp);
            const typename Delivery::Kind kind = delivery().kind;
            if (kind == Delivery::stop) break;
            if (kind == Delivery::key_values) {
                if (lane_index() == 0) store_keys();
                hand_back(buffer);
            } else {
                const DqTurn turn(work_, delivery().keys, delivery().step, Shape::rows, group);
                if (lane_index() == 0) kind == Delivery::queries ? store_queries() : add(turn);
                hand_back(buffer);
                if (lane_index() == 0) end(turn, kind);
                ring_.advance();
            }
        }
        if (lane_index() == 0) bulk_wait<0>();
    }

private:
    __device__ static int buffer_of_group(int i) { return delivery_buffers * group + i; }
    __device__ const Delivery& delivery() const { return shared_.deliveries[group][ring_.at()]; }
    __device__ const float* results() const { return shared_.results[group][ring_.at()]; }

    /// When the bulk copies have read the buffer.
    __device__ void hand_back(int buffer) const {
        warp_barrier();
        barrier_arrive(barrier::delivery_empty + buffer, barrier::group_and_warp);
    }

    /// The first tile of keys stores, later ones add.
    __device__ void add(const DqTurn& turn) const {
        constexpr int bytes = sizeof(shared_.results[0][0]);
        turn.begin();
        fence_async_proxy_global();
        delivery().step.turn == 0 ? store_bulk(turn.sums(), results(), bytes)
                                  : add_bulk(turn.sums(), results(), bytes);
        bulk_commit();
        bulk_wait_read<0>();
    }
    __device__ void store_queries() const {
        if (work_.gradients.accumulate) return;
        const QueryStep& step = delivery().step;
        const BoxPlace place = {Shape::dq_column(group), step.head,
                                step.query + Shape::dq_row(group), delivery().keys.sequence};
        store_box(work_.dq, place, results());
        bulk_commit();
        bulk_wait_read<0>();
    }
    /// The next tile of keys adds when this one's sums have reached memory. One that is alone uses
    /// no sums, but must not hand on those that an earlier owner still adds to.
    __device__ void end(const DqTurn& turn, typename Delivery::Kind kind) const {
        if (kind == Delivery::queries) {
            turn.begin();
            turn.end_all();
        } else {
            bulk_wait<0>();
            fence_async_proxy_global();
            turn.end();
        }
    }

    __device__ void store_keys() const {
        const KeyTile& keys = delivery().keys;
        const int buffer = delivery().key_buffer;
        if (!work_.gradients.accumulate) {
            const auto* dk = reinterpret_cast<const std::byte*>(results());
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
    }

    const BackwardWork& work_;
    BackwardShared<Shape>& shared_;
    Ring<delivery_buffers> ring_;  ///< of the steps; a tile of keys uses the next step's buffer
};

}  // namespace gptrain::cuda::sm90
