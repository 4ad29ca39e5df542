// The products of a computing group of the GEMM kernels for sm_90a: step after step, as the loader
// brings the operands.
#pragma once

#include "cuda/device/unrolled.cuh"
#include "cuda/gemm/sm90/shared.cuh"

namespace gptrain::cuda::sm90 {

/// Registers of a thread's sums; element i is in the place that warpgroup_multiply documents.
using Sums = float[tile_columns / 2];

/// FP8 elements of a, and f8e4m3 of b.
template <class A>
struct Fp8Elements {
    static constexpr DType dtype = A::dtype;
};

/// The scales of FP8 operands.
enum class Scaling {
    none,    ///< of operands of 16 bits
    whole,   ///< one for each operand, applied to the sums
    blocks,  ///< of 128 elements of k, for 1 row of a and 128 columns of b, applied to each step
    strips,  ///< the same for 1 row of a and 1 column of b
};

/// The stages that the loader fills, in order.
class LoadedSteps {
public:
    __device__ explicit LoadedSteps(GemmShared& shared) : shared_(shared) {}

    /// The operands of the next step, when they have arrived.
    __device__ Stage& next() {
        Stage& stage = shared_.operands[loaded_.at()];
        wait(shared_.steps[loaded_.at()].full, loaded_.parity());
        loaded_.advance();
        return stage;
    }
    /// Both blocks may overwrite their half of the oldest step's b, and this block its a.
    __device__ void release() {
        if (lane_index() < cluster_blocks) arrive_at(shared_.steps[done_.at()].empty, lane_index());
        done_.advance();
    }

private:
    GemmShared& shared_;
    Ring<stages> loaded_;
    Ring<stages> done_;
};

/// The same, one at a time, which takes fewer registers.
class LoadedStep {
public:
    __device__ explicit LoadedStep(GemmShared& shared) : shared_(shared) {}

    __device__ void wait_for_next() const { wait(shared_.steps[ring_.at()].full, ring_.parity()); }
    __device__ const Stage& operands() const { return shared_.operands[ring_.at()]; }
    __device__ const StepScales& scales() const { return shared_.scales[ring_.at()]; }
    __device__ void release() {
        if (lane_index() < cluster_blocks) arrive_at(shared_.steps[ring_.at()].empty, lane_index());
        ring_.advance();
    }

private:
    GemmShared& shared_;
    Ring<stages> ring_;
};

/// The first of a step's operands for a multiply, of all rows or columns from `begin` on.
template <Major major>
__device__ inline Operand<major> operand(const std::byte* begin) {
    if constexpr (major == Major::k) {
        return k_major(shared_address(begin));
    } else {
        return mn_major(shared_address(begin), panel_bytes);
    }
}

/// From the operands of one multiply to the next.
template <Major major>
constexpr int operand_bytes = major == Major::k ? 32 : 16 * row_bytes;

/// Starts c (+)= a b for the operands of a step as one group; without `accumulate` it overwrites c.
template <class T, int n, Major a_major, Major b_major>
__device__ inline void start_step(float (&c)[n], Operand<a_major> a, Operand<b_major> b,
                                  bool accumulate) {
    warpgroup_fence();
    unrolled<step_bytes / 32>([&](int k) {
        warpgroup_multiply<T>(c, a.later(k * operand_bytes<a_major>),
                              b.later(k * operand_bytes<b_major>), accumulate || k > 0);
    });
    warpgroup_commit();
}

struct NothingBeside {
    __device__ void operator()(const Stage& /*step*/) const {}
};

/// Adds up all steps in the registers of the tensor cores. T is Bf16, F16 or Fp8Elements.
template <class T, Major a_dim, Major b_dim>
class StepProducts {
public:
    static constexpr Major a_major = a_dim;
    static constexpr Major b_major = b_dim;
    static constexpr bool divided = a_dim == Major::mn;
    static constexpr bool promoted = false;
    static constexpr bool sums_rows = false;
    static constexpr Scaling scaling = size_of(T::dtype) == 1 ? Scaling::whole : Scaling::none;

    __device__ StepProducts(GemmShared& shared, int group) : group_(group), steps_(shared) {}

    /// c = the sum of so many steps, at least one. Of the last step, the first `last_rows` summed
    /// elements count; the others may hold anything. For fewer than all of them, a and b must have
    /// them in rows. `beside` is called with each step while its products run.
    template <class Beside = NothingBeside>
    __device__ void add(Sums& c, int steps, int last_rows = step_length,
                        const Beside& beside = {}) {
        const auto rows = [&](int step) { return step + 1 < steps ? step_length : last_rows; };
        beside(start_next(c, rows(0), false));
        for (int step = 1; step < steps; ++step) {
            const Stage& stage = start_next(c, rows(step), true);
            warpgroup_wait<1>();
            steps_.release();
            beside(stage);
        }
        warpgroup_wait<0>();
        pin_registers(c);
        steps_.release();
    }

private:
    __device__ const Stage& start_next(Sums& c, int rows, bool accumulate) {
        Stage& stage = steps_.next();
        if constexpr (a_major == Major::mn && b_major == Major::mn) {
            if (rows < step_length) clear_from(rows, stage);
        }
        start_step<T>(c, operand<a_major>(stage.a + group_ * panel_bytes),
                      operand<b_major>(stage.b[0]), accumulate);
        return stage;
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

    int group_;
    LoadedSteps steps_;
};

}  // namespace gptrain::cuda::sm90
