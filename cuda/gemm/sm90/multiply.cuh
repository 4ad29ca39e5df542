// The products of a computing group of the GEMM kernels for sm_90a: step after step, as the loader
// brings the operands.
#pragma once

#include "cuda/device/unrolled.cuh"
#include "cuda/gemm/sm90/shared.cuh"

namespace gptrain::cuda::sm90 {

/// Registers of a thread's sums; element i is in the place that warpgroup_multiply documents.
using Sums = float[tile_columns / 2];

template <class T, Major a_major, Major b_major>
class StepProducts {
public:
    __device__ StepProducts(GemmShared& shared, int group) : shared_(shared), group_(group) {}

    /// c = the sum of so many steps, at least one. Of the last step, the first `last_rows` summed
    /// elements count; the others may hold anything. For fewer than all of them, a and b must have
    /// them in rows.
    __device__ void add(Sums& c, int steps, int last_rows = step_length) {
        const auto rows = [&](int step) { return step + 1 < steps ? step_length : last_rows; };
        multiply_step(c, rows(0), false);
        for (int step = 1; step < steps; ++step) {
            multiply_step(c, rows(step), true);
            warpgroup_wait<1>();
            release();
        }
        warpgroup_wait<0>();
        pin_registers(c);
        release();
    }

private:
    /// The first 16 of a step's summed elements, of all rows or columns from `begin` on.
    template <Major major>
    __device__ static Operand<major> operand(const std::byte* begin) {
        if constexpr (major == Major::k) {
            return k_major(shared_address(begin));
        } else {
            return mn_major(shared_address(begin), panel_bytes);
        }
    }
    /// From 16 summed elements to the next.
    template <Major major>
    static constexpr int operand_bytes = major == Major::k ? 16 * 2 : 16 * row_bytes;

    /// c (+)= a b for the next step; without `accumulate` it overwrites c.
    __device__ void multiply_step(Sums& c, int rows, bool accumulate) {
        Stage& stage = shared_.operands[loaded_.at()];
        wait(shared_.steps[loaded_.at()].full, loaded_.parity());
        loaded_.advance();
        if constexpr (a_major == Major::mn && b_major == Major::mn) {
            if (rows < step_length) clear_from(rows, stage);
        }
        const Operand a = operand<a_major>(stage.a + group_ * panel_bytes);
        const Operand b = operand<b_major>(stage.b[0]);
        warpgroup_fence();
        unrolled<step_length / 16>([&](int k) {
            warpgroup_multiply<T>(c, a.later(k * operand_bytes<a_major>),
                                  b.later(k * operand_bytes<b_major>), accumulate || k > 0);
        });
        warpgroup_commit();
    }
    /// Both blocks may overwrite their half of the oldest step's b, and this block its a.
    __device__ void release() {
        if (lane_index() < cluster_blocks) arrive_at(shared_.steps[done_.at()].empty, lane_index());
        done_.advance();
    }
    /// Sets the rows from this one on to 0, of a for this group and of b for both: each group does
    /// a half.
    __device__ void clear_from(int row, Stage& stage) const {
        constexpr int pieces = panel_bytes / 16;
        for (std::byte* panel : {stage.a + group_ * panel_bytes, stage.b[group_] + 0 * panel_bytes,
                                 stage.b[group_] + 1 * panel_bytes}) {
            auto* piece = reinterpret_cast<Vec<float, 4>*>(panel);
            for (int i = row * (row_bytes / 16) + thread_index() % group_threads; i < pieces;
                 i += group_threads)
                store(piece + i, Vec<float, 4>{});
        }
        fence_async_proxy();
        barrier_wait(barrier::both_groups, tile_groups * group_threads);
    }

    GemmShared& shared_;
    int group_;
    Ring<stages> loaded_;
    Ring<stages> done_;
};

}  // namespace gptrain::cuda::sm90
