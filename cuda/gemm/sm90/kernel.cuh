// The work that all GEMM kernels for sm_90a share, and their launch. Persistent clusters of two
// blocks take units of work: a pair of tiles of c, for a part of the summed dim. One warpgroup
// loads operands, two compute, each 64 of the 128 rows of a tile (docs/cuda.md, "GEMMs for
// sm_90a").
#pragma once

#include "base/error.h"
#include "cuda/device/partial_sums.h"
#include "cuda/gemm/sm90/finish.cuh"
#include "cuda/gemm/sm90/load.cuh"
#include "cuda/gemm/sm90/row_sums.cuh"
#include "cuda/gemm/sm90/scales.cuh"
#include "cuda/runtime/context.h"

namespace gptrain::cuda::sm90 {

/// A computing warpgroup. T is the type of 16-bit results. Only what may_divide allows is divided.
template <class Products, class T, GemmResult result>
class ComputingGroup {
public:
    __device__ ComputingGroup(const GemmWork& work, GemmShared& shared, int group)
        : work_(work),
          shared_(shared),
          group_(group),
          finisher_(work, shared, group),
          products_(shared, group) {}

    __device__ void run() {
        const int rank = cluster_rank();
        for (Ring<unit_slots> units;; units.advance()) {
            int unit = 0;
            if (lane_index() == 0) unit = static_cast<int>(read_unit(shared_, units).number);
            unit = shuffle(unit, 0);
            if (unit >= work_.units()) break;
            const UnitPlace place = place_of(work_, unit, rank);
            Sums c;
            add_steps(c, place);
            if constexpr (Products::divided) {
                const PartTurn turn(work_, place, group_);
                if (place.part > 0) turn.add_earlier(c);
                if (place.part + 1 < work_.parts) {
                    turn.hand_on(c);
                    continue;
                }
            }
            if constexpr (Products::scaling == Scaling::whole) scale_sums(c, work_);
            finisher_.store_tile(place, c);
        }
        if constexpr (result != GemmResult::sums) finisher_.wait_for_stores();
    }

private:
    __device__ void add_steps(Sums& c, const UnitPlace& place) {
        const int steps = place.last_step - place.first_step;
        const bool both = place.column + half_columns < work_.cols;
        if constexpr (Products::scaling == Scaling::blocks) {
            products_.add(c, steps, both, BlockScales(work_, place, group_));
        } else if constexpr (Products::scaling == Scaling::strips) {
            products_.add(c, steps, both, StripScales(group_));
        } else if constexpr (Products::promoted) {
            products_.add(c, steps, both);
        } else if constexpr (Products::sums_rows) {
            add_with_row_sums(c, place);
        } else {
            products_.add(c, steps);
        }
    }
    /// The first column of tiles sums the rows of a for all.
    __device__ void add_with_row_sums(Sums& c, const UnitPlace& place) {
        RowSums<T> sums(group_);
        const bool first = place.column == 0;
        products_.add(c, place.last_step - place.first_step, step_length, [&](const Stage& stage) {
            if (first) sums.add(stage);
        });
        if (!first) return;
        const int row = place.row + group_ * group_rows;
        sums.store_rows(work_.row_sums + std::int64_t{place.part} * work_.rows + row,
                        work_.rows - row);
    }

    const GemmWork& work_;
    GemmShared& shared_;
    int group_;
    Finisher<T, result> finisher_;
    Products products_;
};

/// The kernel's body.
template <class Products, class T, GemmResult result>
__device__ inline void run_block(const GemmWork& work) {
    static_assert(Products::scaling != Scaling::strips || result == GemmResult::sums);
    auto& shared = shared_memory<GemmShared>();
    init_barriers(shared);
    const int group = warp_index() / group_warps;
    if (group == 0) {
        lower_registers<loader_registers>();
        const int warp = warp_index();
        if (warp == 0 && lane_index() == 0) {
            load_steps<Products, result>(work, shared);
        } else if (warp == 1 && lane_index() == 0 && cluster_rank() == 0) {
            take_units(work, shared);
        }
    } else {
        raise_registers<compute_registers>();
        ComputingGroup<Products, T, result>(work, shared, group - 1).run();
    }
    // The other block arrives at barriers of this one.
    cluster_barrier();
}

// ---- host ---------------------------------------------------------------------------------------

static_assert(fp8_block == half_columns && fp8_block == step_bytes);

/// The matrix in rows of its contiguous dim. Bulk copies move 16 bits at a time, so an element of
/// the map is two of FP8.
inline MapMatrix by_contiguous_dim(const Matrix& matrix, bool rows) {
    const auto halves = [&](std::int64_t count) { return count * size_of(matrix.dtype) / 2; };
    if (rows) return {matrix.data, matrix.rows, halves(matrix.cols), halves(matrix.row_stride)};
    return {matrix.data, matrix.cols, halves(matrix.rows), halves(matrix.col_stride)};
}

/// The sums, and the counters, which are 0 at first.
inline void take_scratch(GemmWork& work, const UnitPlan& plan, const OpContext& context) {
    context.scratch.reset();
    auto* counters = context.scratch.take<unsigned>(plan.counters());
    set_bytes(counters, 0, plan.counters() * static_cast<std::int64_t>(sizeof(unsigned)),
              context.stream);
    work.next_unit = counters;
    work.turns = counters + 1;
    work.sums = plan.parts > 1 ? context.scratch.take<float>(plan.sums()) : nullptr;
    work.row_sums = plan.row_sums > 0 ? context.scratch.take<float>(plan.row_sums) : nullptr;
}

/// A contiguous [fc | gate], as a map has it: its rows in two parts.
inline Tensor in_halves(const Matrix& matrix) {
    return {matrix.data, matrix.dtype, {1, matrix.rows, 2, matrix.cols / 2}};
}

/// The maps of the operands and of results of 16 bits.
template <class Products, GemmResult result>
void make_maps(GemmWork& work, const Gemm& gemm) {
    using enum GemmResult;
    constexpr int map_rows = 128;
    constexpr bool a_by_k = Products::a_major == Major::k;
    constexpr bool b_by_k = Products::b_major == Major::k;
    work.a = matrix_map(by_contiguous_dim(gemm.a, a_by_k), a_by_k ? map_rows : step_length);
    work.b = matrix_map(by_contiguous_dim(gemm.b, !b_by_k), b_by_k ? map_rows : step_length);
    if constexpr (result == swiglu) {
        // The weights of fc and gate, one after the other.
        const Tensor weights(gemm.b.data, gemm.b.dtype, {2, gemm.b.cols / 2, 1, gemm.b.rows});
        work.b = padded_tensor_map(weights, map_rows);
        work.c = padded_tensor_map(in_halves(gemm.c), group_rows);
        work.activated = matrix_map(by_contiguous_dim(gemm.swiglu, true), group_rows);
    } else if constexpr (result == swiglu_slope) {
        work.c = padded_tensor_map(in_halves(gemm.swiglu_grad), group_rows);
    } else if constexpr (result != sums) {
        work.c = matrix_map(by_contiguous_dim(gemm.c, true), group_rows);
        if constexpr (result == gelu)
            work.activated = matrix_map(by_contiguous_dim(gemm.gelu, true), group_rows);
    }
}

/// Launches a kernel that calls run_block<Products, T, result>.
template <class Products, GemmResult result>
void launch_gemm(void (*kernel)(GemmWork), const Gemm& gemm, std::int64_t parts,
                 const OpContext& context) {
    const UnitPlan plan(gemm, Products::divided ? parts : 1);
    const Matrix& input = result == GemmResult::swiglu_slope ? gemm.swiglu_input : gemm.gelu_input;
    GemmWork work = {};
    make_maps<Products, result>(work, gemm);
    work.rows = gptrain::narrow<int>(gemm.c.rows);
    work.cols = gptrain::narrow<int>(result == GemmResult::swiglu ? gemm.c.cols / 2 : gemm.c.cols);
    work.pairs = gptrain::narrow<int>(plan.pairs);
    work.columns = gptrain::narrow<int>(plan.columns);
    work.steps = gptrain::narrow<int>(plan.steps);
    work.parts = gptrain::narrow<int>(plan.parts);
    take_scratch(work, plan, context);
    work.to = gemm.c.data;
    work.to_stride = gemm.c.row_stride;
    work.bias = gemm.bias;
    work.activation_input = input.data;
    work.activation_stride = input.row_stride;
    work.accumulate = gemm.accumulate;
    work.a_scale = gemm.a.scale;
    work.b_scale = gemm.b.scale;
    work.a_scale_step = gemm.a.scales.col_step;
    constexpr bool strips = Products::scaling == Scaling::strips;
    work.b_scale_step = strips ? gemm.b.scales.row_step : gemm.b.scales.col_step;
    // A cluster whose multiprocessors are held by others starts late and finds less to do.
    const std::int64_t clusters = std::min<std::int64_t>(
        plan.units(), div_ceil(context.device.multiprocessors, cluster_blocks));
    launch(context.stream,
           {.blocks = clusters * cluster_blocks,
            .threads = threads_of_block,
            .shared_bytes = sizeof(GemmShared),
            .cluster_blocks = cluster_blocks},
           kernel, work);
    if constexpr (Products::sums_rows) {
        add_partial_sums({.data = work.row_sums,
                          .count = plan.parts,
                          .columns = gemm.c.rows,
                          .totals = {gemm.a_totals, nullptr}},
                         context.stream);
    }
}

}  // namespace gptrain::cuda::sm90
