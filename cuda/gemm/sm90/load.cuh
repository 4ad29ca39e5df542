// The two threads of the GEMM kernel for sm_90a that keep the others at work.
//
// One thread of a cluster takes units of work from a counter and tells both blocks. So a cluster
// whose multiprocessors were held by a message takes fewer units. In each block one thread loads
// the operands of all steps: its rows of a, and one half of b for both blocks.
#pragma once

#include "cuda/gemm/sm90/shared.cuh"

namespace gptrain::cuda::sm90 {

/// Barriers of a unit's slot: these threads of each block read it.
constexpr int unit_readers = cluster_blocks * (1 + tile_groups * group_warps);
/// Barriers of a stage: each computing warp of both blocks arrives, because b is loaded for both.
constexpr int stage_readers = cluster_blocks * tile_groups * group_warps;

/// Called by one thread of the cluster.
__device__ inline void take_units(const GemmWork& work, GemmShared& shared) {
    const auto units = static_cast<unsigned>(work.units());
    unsigned unit = 0;
    for (Ring<unit_slots> ring; unit < units; ring.advance()) {
        unit = std::min(atomic_add(work.next_unit, 1u), units);
        BufferBarriers& slot = shared.units[ring.at()];
        wait_for_cluster(slot.empty, ring.parity() ^ 1);
        for (int rank = 0; rank < cluster_blocks; ++rank) {
            store_at(shared.unit[ring.at()], unit, rank);
            arrive_at(slot.full, rank);
        }
    }
}

/// The unit in a slot, work.units() after the last one. Called by one of its readers.
__device__ inline int read_unit(GemmShared& shared, const Ring<unit_slots>& ring) {
    BufferBarriers& slot = shared.units[ring.at()];
    wait_for_cluster(slot.full, ring.parity());
    const auto unit = static_cast<int>(shared.unit[ring.at()]);
    arrive_at(slot.empty, 0);
    return unit;
}

/// The boxes of 128 rows or columns of an operand, from `first` on, for the step that begins at k.
template <Major major, class Load>
__device__ inline void each_box(std::byte* to, int first, int k, const Load& load) {
    if constexpr (major == Major::k) {
        load(to, BoxPlace{k, 0, first, 0});
    } else {
        load(to, BoxPlace{first, 0, k, 0});
        load(to + panel_bytes, BoxPlace{first + panel_columns, 0, k, 0});
    }
}

/// Called by one thread of each block.
template <Major a_major, Major b_major>
__device__ inline void load_steps(const GemmWork& work, GemmShared& shared) {
    constexpr unsigned both = (1u << cluster_blocks) - 1;
    const int rank = cluster_rank();
    Ring<stages> ring;
    for (Ring<unit_slots> units;; units.advance()) {
        const int unit = read_unit(shared, units);
        if (unit >= work.units()) return;
        const UnitPlace place = place_of(work, unit, rank);
        for (int step = place.first_step; step < place.last_step; ++step, ring.advance()) {
            BufferBarriers& barriers = shared.steps[ring.at()];
            Stage& stage = shared.operands[ring.at()];
            const int k = step * step_length;
            wait_for_cluster(barriers.empty, ring.parity() ^ 1);
            arrive_expect_bytes(barriers.full, static_cast<int>(sizeof(Stage)));
            each_box<a_major>(stage.a, place.row, k, [&](std::byte* to, const BoxPlace& box) {
                load_box(to, work.a, box, barriers.full);
            });
            each_box<b_major>(stage.b[rank], place.column + rank * 128, k,
                              [&](std::byte* to, const BoxPlace& box) {
                                  multicast_box(to, work.b, box, barriers.full, both);
                              });
        }
    }
}

}  // namespace gptrain::cuda::sm90
