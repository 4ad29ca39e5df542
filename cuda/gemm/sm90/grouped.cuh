// Grouped GEMMs for sm_90a: a GEMM for each expert, whose rows the device finds in offsets. Units
// of work are pairs of tiles of one expert, experts ascending.
//
// The rows of an expert are rows of a and c (forward, input gradient) or the summed dim (weight
// gradient). They begin anywhere: bulk copies load from there on, also rows of the next expert. Of
// rows of c those of the expert alone are stored; in a sum the others count as 0.
#pragma once

#include "cuda/gemm/grouped_gemm.h"
#include "cuda/gemm/sm90/finish.cuh"
#include "cuda/gemm/sm90/load.cuh"

namespace gptrain::cuda::sm90 {

/// Arguments of the kernel. Maps have places {column, part, row, 0} in rows of several parts, and
/// {input, 0, output, matrix} in weights.
struct GroupedWork {
    TensorMap a, b;
    TensorMap c;  ///< boxes of group_rows; unused for weight gradients
    const std::int32_t* offsets;
    int experts;
    int parts;    ///< P
    int rows;     ///< of c of a weight gradient: O
    int cols;     ///< of c: of one part in forward
    int pairs;    ///< of tiles down a weight gradient
    int columns;  ///< of tiles in `cols`
    int steps;    ///< of the summed dim, one part in the input gradient; not of weight gradients
    unsigned* next_unit;
    std::byte* to;  ///< c
    std::int64_t to_stride;
    const std::byte* bias;
    bool accumulate;
};

/// The units of an expert with so many rows.
template <GroupedKind kind>
__device__ inline int units_of(const GroupedWork& work, int rows) {
    if constexpr (kind == GroupedKind::weight_grad) {
        if (rows == 0 && work.accumulate) return 0;
        return work.parts * work.pairs * work.columns;
    } else {
        constexpr int pair_rows = tile_rows * cluster_blocks;
        const int pairs = (rows + pair_rows - 1) / pair_rows;
        return pairs * work.columns * (kind == GroupedKind::forward ? work.parts : 1);
    }
}

/// Called by one thread of the cluster. Units come in ascending order, so it goes through the
/// experts once.
template <GroupedKind kind>
__device__ inline void take_grouped_units(const GroupedWork& work, GemmShared& shared) {
    int expert = 0;
    int before = 0;  // units of the experts before
    int begin = load(work.offsets);
    int rows = load(work.offsets + 1) - begin;
    for (Ring<unit_slots> ring;; ring.advance()) {
        const auto unit = static_cast<int>(atomic_add(work.next_unit, 1u));
        while (expert < work.experts && unit - before >= units_of<kind>(work, rows)) {
            before += units_of<kind>(work, rows);
            begin += rows;
            if (++expert < work.experts) rows = load(work.offsets + expert + 1) - begin;
        }
        BufferBarriers& slot = shared.units[ring.at()];
        TakenUnit& taken = shared.taken[ring.at()];
        wait_for_cluster(slot.empty, ring.parity() ^ 1);
        for (int rank = 0; rank < cluster_blocks; ++rank) {
            store_at(taken.number, static_cast<unsigned>(unit - before), rank);
            store_at(taken.expert, static_cast<unsigned>(expert), rank);
            store_at(taken.begin, static_cast<unsigned>(begin), rank);
            store_at(taken.rows, static_cast<unsigned>(rows), rank);
            arrive_at(slot.full, rank);
        }
        if (expert == work.experts) return;
    }
}

/// A unit of work as one block of the cluster sees it.
struct GroupedPlace {
    int row;     ///< of c, the first of the block's tile; of a weight gradient, in one matrix
    int end;     ///< the row after the last one
    int column;  ///< of c, in one part
    int part;    ///< of c
    int matrix;  ///< of the weight or its gradient, the first part's in the input gradient
    int begin;   ///< the expert's first row
    int steps;
    int last_rows;  ///< of the sum, in the last step
};

template <GroupedKind kind>
__device__ inline GroupedPlace place_of(const GroupedWork& work, const TakenUnit& unit, int rank) {
    const auto number = static_cast<int>(unit.number);
    const auto expert = static_cast<int>(unit.expert);
    const auto begin = static_cast<int>(unit.begin);
    const auto rows = static_cast<int>(unit.rows);
    constexpr int pair_rows = tile_rows * cluster_blocks;
    const int pairs =
        kind == GroupedKind::weight_grad ? work.pairs : (rows + pair_rows - 1) / pair_rows;
    const int part = number / (pairs * work.columns);
    const auto [pair, column] = pair_at(number % (pairs * work.columns), pairs, work.columns);
    const int row = (pair * cluster_blocks + rank) * tile_rows;
    GroupedPlace place = {.row = begin + row,
                          .end = begin + rows,
                          .column = column * tile_columns,
                          .part = part,
                          .matrix = part * work.experts + expert,
                          .begin = begin,
                          .steps = work.steps,
                          .last_rows = step_length};
    if constexpr (kind == GroupedKind::input_grad) place.steps = work.steps * work.parts;
    if constexpr (kind == GroupedKind::weight_grad) {
        place.row = row;
        place.end = work.rows;
        place.steps = (rows + step_length - 1) / step_length;
        place.last_rows = rows - (place.steps - 1) * step_length;
    }
    return place;
}

/// Called by one thread of each block.
template <GroupedKind kind>
__device__ inline void load_grouped_steps(const GroupedWork& work, GemmShared& shared) {
    constexpr Major a_major = kind == GroupedKind::weight_grad ? Major::mn : Major::k;
    constexpr Major b_major = kind == GroupedKind::forward ? Major::k : Major::mn;
    const int rank = cluster_rank();
    Ring<stages> ring;
    for (Ring<unit_slots> units;; units.advance()) {
        const TakenUnit unit = read_unit(shared, units);
        if (static_cast<int>(unit.expert) >= work.experts) return;
        const GroupedPlace at = place_of<kind>(work, unit, rank);
        const int column = at.column + rank * 128;
        for (int step = 0; step < at.steps; ++step, ring.advance()) {
            OperandPlace a = {.first = at.row, .k = step * step_length};
            OperandPlace b = {.first = column, .k = step * step_length};
            if constexpr (kind == GroupedKind::forward) {
                b.sequence = at.matrix;
            } else if constexpr (kind == GroupedKind::input_grad) {
                const int part = step / work.steps;
                a.k = b.k = step % work.steps * step_length;
                a.head = part;
                b.sequence = at.matrix + part * work.experts;
            } else {
                a.k = b.k = at.begin + step * step_length;
                a.head = at.part;
            }
            load_step<a_major, b_major>(shared, ring, work.a, a, work.b, b);
        }
    }
}

/// Stores the sums of one group, as far as rows and columns exist.
template <class T>
class GroupedFinisher {
public:
    __device__ GroupedFinisher(const GroupedWork& work, GemmShared& shared, int group)
        : work_(work), shared_(shared), group_(group) {}

    /// Rounded to T, with a bias.
    __device__ void store_rows(const GroupedPlace& place, const Sums& c) {
        const int row = place.row + group_ * group_rows;
        const int rows = place.end - row;
        if (rows <= 0) return;
        unrolled<tile_columns / panel_columns>([&](int panel) {
            const int column = place.column + panel * panel_columns;
            if (column >= work_.cols) return;
            std::uint32_t words[2 * panel_pairs];
            round(words, c + panel * panel_columns / 2, place.matrix, column);
            bulk_wait_read<store_buffers - 1>();
            barrier_wait(barrier::group + group_, group_threads);
            std::byte* buffer = shared_.results[group_][buffer_];
            put_rows(buffer, words);
            fence_async_proxy();
            barrier_wait(barrier::group + group_, group_threads);
            // The next expert's rows follow.
            if (rows < group_rows) copy_rows(buffer, place.part, row, rows, column);
            if (thread_index() % group_threads == 0) {
                if (rows >= group_rows) store_box(work_.c, {column, place.part, row, 0}, buffer);
                bulk_commit();
            }
            warp_barrier();
            buffer_ = 1 - buffer_;
        });
    }
    /// Of a weight gradient, in fp32.
    __device__ void store_sums(const GroupedPlace& place, const Sums& c) const {
        auto* to = reinterpret_cast<float*>(work_.to) +
                   std::int64_t{place.matrix} * work_.rows * work_.to_stride;
        const int first =
            place.row + group_ * group_rows + warp_index() % group_warps * 16 + lane_index() / 4;
        const int column = place.column + lane_index() % 4 * 2;
        unrolled<tile_columns / 8>([&](int j) {
            if (column + 8 * j >= work_.cols) return;
            unrolled<2>([&](int i) {
                const int row = first + 8 * i;
                if (row >= place.end) return;
                auto* pair =
                    reinterpret_cast<Vec<float, 2>*>(to + row * work_.to_stride + column + 8 * j);
                Vec<float, 2> x = {c[4 * j + 2 * i], c[4 * j + 2 * i + 1]};
                if (work_.accumulate) {
                    const auto before = load(pair);
                    unrolled<2>([&](int k) { x[k] = x[k] + before[k]; });
                }
                store(pair, x);
            });
        });
    }
    /// After the last tile.
    __device__ static void wait_for_stores() { bulk_wait<0>(); }

private:
    /// Rounds the sums of this lane in a panel, as Finisher::round does.
    __device__ void round(std::uint32_t (&words)[2 * panel_pairs], const float* c, int matrix,
                          int column) const {
        const auto* bias =
            reinterpret_cast<const T*>(work_.bias) + std::int64_t{matrix} * work_.cols;
        unrolled<panel_pairs>([&](int j) {
            const int at = column + lane_index() % 4 * 2 + 8 * j;
            Vec<T, 2> b = {};
            const bool biased = work_.bias != nullptr;
            if (biased && at < work_.cols) b = load(reinterpret_cast<const Vec<T, 2>*>(bias + at));
            unrolled<2>([&](int i) {
                const float* x = c + 4 * j + 2 * i;
                words[2 * j + i] = biased ? narrow2<T>(x[0] + widen(b[0]), x[1] + widen(b[1]))
                                          : narrow2<T>(x[0], x[1]);
            });
        });
    }
    /// Copies the first `rows` rows of a panel.
    __device__ void copy_rows(const std::byte* panel, int part, int row, int rows,
                              int column) const {
        constexpr int row_pieces = row_bytes / 16;
        for (int i = thread_index() % group_threads; i < rows * row_pieces; i += group_threads) {
            const int r = i / row_pieces;
            const int at = i % row_pieces;
            if (column + at * 8 >= work_.cols) continue;
            auto* to = reinterpret_cast<T*>(work_.to) + (row + r) * work_.to_stride +
                       part * work_.cols + column + at * 8;
            store(
                reinterpret_cast<Vec16<T>*>(to),
                load(reinterpret_cast<const Vec16<T>*>(panel + r * row_bytes + (at ^ r % 8) * 16)));
        }
    }

    const GroupedWork& work_;
    GemmShared& shared_;
    int group_;
    int buffer_ = 0;
};

}  // namespace gptrain::cuda::sm90
