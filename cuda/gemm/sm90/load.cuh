// The two threads of the GEMM kernel for sm_90a that keep the others at work.
//
// One thread of a cluster takes units of work from a counter and tells both blocks. So a cluster
// whose multiprocessors were held by a message takes fewer units. In each block one thread loads
// the operands of all steps: its rows of a, and one half of b for both blocks.
#pragma once

#include "cuda/gemm/sm90/multiply.cuh"

namespace gptrain::cuda::sm90 {

/// Barriers of a unit's slot: these threads of each block read it.
constexpr int unit_readers = cluster_blocks * (1 + tile_groups * group_warps);
/// Barriers of a stage: each computing warp of both blocks arrives, because b is loaded for both.
constexpr int stage_readers = cluster_blocks * tile_groups * group_warps;

/// Called by all threads, at first.
__device__ inline void init_barriers(GemmShared& shared) {
    if (thread_index() == 0) {
        for (BufferBarriers& barriers : shared.steps)
            init(barriers, stage_readers);
        for (BufferBarriers& barriers : shared.units)
            init(barriers, unit_readers);
        fence_barriers();
    }
    cluster_barrier();
}

/// Called by one thread of the cluster.
__device__ inline void take_units(const GemmWork& work, GemmShared& shared) {
    const auto units = static_cast<unsigned>(work.units());
    unsigned unit = 0;
    for (Ring<unit_slots> ring; unit < units; ring.advance()) {
        unit = std::min(atomic_add(work.next_unit, 1u), units);
        BufferBarriers& slot = shared.units[ring.at()];
        wait_for_cluster(slot.empty, ring.parity() ^ 1);
        for (int rank = 0; rank < cluster_blocks; ++rank) {
            store_at(shared.taken[ring.at()].number, unit, rank);
            arrive_at(slot.full, rank);
        }
    }
}

/// The unit in a slot. Called by one of its readers.
__device__ inline TakenUnit read_unit(GemmShared& shared, const Ring<unit_slots>& ring) {
    BufferBarriers& slot = shared.units[ring.at()];
    wait_for_cluster(slot.full, ring.parity());
    const TakenUnit unit = shared.taken[ring.at()];
    arrive_at(slot.empty, 0);
    return unit;
}

/// 128 rows or columns of an operand, for one step.
struct OperandPlace {
    int first;     ///< row or column
    int k;         ///< in elements of 16 bits
    int head = 0;  ///< BoxPlace::head and BoxPlace::sequence of a grouped GEMM's maps
    int sequence = 0;
};

template <Major major, class Load>
__device__ inline void each_box(std::byte* to, const OperandPlace& at, const Load& load) {
    if constexpr (major == Major::k) {
        load(to, BoxPlace{at.k, at.head, at.first, at.sequence});
    } else {
        load(to, BoxPlace{at.first, at.head, at.k, at.sequence});
        load(to + panel_bytes, BoxPlace{at.first + panel_columns, at.head, at.k, at.sequence});
    }
}

/// Loads the scales of the strips in a unit.
class StripLoader {
public:
    __device__ StripLoader(const GemmWork& work, const UnitPlace& place)
        : work_(work),
          place_(place),
          rows_(clamped(work.rows - place.row, tile_rows)),
          columns_(clamped(work.cols - place.column, tile_columns)) {}

    __device__ int bytes() const { return (rows_ + columns_) * size; }
    __device__ void load(StepScales& to, int step, Barrier& barrier) const {
        if (rows_ > 0) {
            load_bulk(to.a, work_.a_scale + step * work_.a_scale_step + place_.row, rows_ * size,
                      barrier);
        }
        load_bulk(to.b, work_.b_scale + step * work_.b_scale_step + place_.column, columns_ * size,
                  barrier);
    }

private:
    static constexpr int size = sizeof(float);
    __device__ static int clamped(int count, int most) {
        return std::max(std::min(count, most), 0);
    }

    const GemmWork& work_;
    const UnitPlace& place_;
    int rows_;
    int columns_;
};

/// Starts to load a stage when it is free: the block's rows of a, and its half of b for both
/// blocks. The caller loads `more_bytes` that the stage's barrier counts too.
template <Major a_major, Major b_major>
__device__ inline void load_step(GemmShared& shared, const Ring<stages>& ring, const TensorMap& a,
                                 const OperandPlace& a_at, const TensorMap& b,
                                 const OperandPlace& b_at, int more_bytes = 0) {
    constexpr unsigned both = (1u << cluster_blocks) - 1;
    BufferBarriers& barriers = shared.steps[ring.at()];
    Stage& stage = shared.operands[ring.at()];
    wait_for_cluster(barriers.empty, ring.parity() ^ 1);
    arrive_expect_bytes(barriers.full, static_cast<int>(sizeof(Stage)) + more_bytes);
    each_box<a_major>(stage.a, a_at, [&](std::byte* to, const BoxPlace& box) {
        load_box(to, a, box, barriers.full);
    });
    each_box<b_major>(stage.b[cluster_rank()], b_at, [&](std::byte* to, const BoxPlace& box) {
        multicast_box(to, b, box, barriers.full, both);
    });
}

/// The rows or columns of b that a block loads of a tile: a half of them.
template <GemmResult result>
__device__ inline OperandPlace half_of_b(const UnitPlace& place, int rank, int k) {
    // The first half are rows of fc's weight, the second those of gate's.
    if constexpr (result == GemmResult::swiglu) return {place.column / 2, k, 0, rank};
    return {place.column + rank * half_columns, k};
}

/// Called by one thread of each block.
template <class Products, GemmResult result>
__device__ inline void load_steps(const GemmWork& work, GemmShared& shared) {
    const int rank = cluster_rank();
    Ring<stages> ring;
    for (Ring<unit_slots> units;; units.advance()) {
        const auto unit = static_cast<int>(read_unit(shared, units).number);
        if (unit >= work.units()) return;
        const UnitPlace place = place_of(work, unit, rank);
        const StripLoader scales(work, place);
        for (int step = place.first_step; step < place.last_step; ++step, ring.advance()) {
            const int k = step * step_length;
            constexpr bool strips = Products::scaling == Scaling::strips;
            load_step<Products::a_major, Products::b_major>(
                shared, ring, work.a, {place.row, k}, work.b, half_of_b<result>(place, rank, k),
                strips ? scales.bytes() : 0);
            if constexpr (strips)
                scales.load(shared.scales[ring.at()], step, shared.steps[ring.at()].full);
        }
    }
}

}  // namespace gptrain::cuda::sm90
