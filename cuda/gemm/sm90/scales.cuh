// The scales of FP8 operands in the GEMM kernel for sm_90a.
#pragma once

#include "cuda/gemm/sm90/multiply.cuh"

namespace gptrain::cuda::sm90 {

/// The multiplies of a step cover the columns of a tile in halves. A thread's sums of a step, for a
/// half.
using StepSums = float[half_columns / 2];

/// c = sums with one scale for each operand. The product of both comes first, so that a sum is
/// rounded once.
__device__ inline void scale_sums(Sums& c, const GemmWork& work) {
    const float factor = *work.a_scale * *work.b_scale;
    unrolled<tile_columns / 2>([&](int i) { c[i] = c[i] * factor; });
}

// How the sums of a step's half are added. `factors` comes before its products. `add` adds a
// lane's sums of 8 columns: those of two columns in one row, then in the other one.

/// Adds a step's sums as they are.
struct PlainSums {
    struct Factors {};
    static constexpr bool loaded = false;
    __device__ Factors factors(int /*step*/, int /*half*/, const StepScales& /*scales*/) const {
        return {};
    }
    __device__ static void add(float* c, const float* sums, int /*eight*/,
                               const Factors& /*factors*/) {
        unrolled<4>([&](int i) { c[i] = c[i] + sums[i]; });
    }
};

/// Scales a step's sums by the blocks that its operands are: 1 x 128 of a, 128 x 128 of b. The
/// summed dim is not divided, so that its steps are those of the unit.
class BlockScales {
public:
    /// Of a thread's two rows.
    struct Factors {
        float row[2];
    };
    static constexpr bool loaded = false;

    __device__ BlockScales(const GemmWork& work, const UnitPlace& place, int group)
        : work_(work),
          row_(place.row + group * group_rows + warp_index() % group_warps * 16 + lane_index() / 4),
          column_(place.column) {}

    /// For this half of the columns.
    __device__ Factors factors(int step, int half, const StepScales& /*scales*/) const {
        const int square = column_ / half_columns + half;
        const float of_b = work_.b_scale[square * work_.b_scale_step + step];
        Factors result = {};
        unrolled<2>([&](int i) {
            const int row = row_ + 8 * i;
            if (row < work_.rows)
                result.row[i] = work_.a_scale[step * work_.a_scale_step + row] * of_b;
        });
        return result;
    }
    __device__ static void add(float* c, const float* sums, int /*eight*/, const Factors& factors) {
        unrolled<4>([&](int i) { c[i] = fma(sums[i], factors.row[i / 2], c[i]); });
    }

private:
    const GemmWork& work_;
    int row_;
    int column_;
};

/// Scales a step's sums by the strips of 1 x 128 that both operands are. A lane has 64 columns of a
/// tile, whose scales would take too many registers: it reads each pair when it adds it.
class StripScales {
public:
    struct Factors {
        float row[2];
        const float* columns;
    };
    /// The scales are in shared memory, as the operands.
    static constexpr bool loaded = true;

    __device__ explicit StripScales(int group)
        : row_(group * group_rows + warp_index() % group_warps * 16 + lane_index() / 4),
          column_(lane_index() % 4 * 2) {}

    __device__ Factors factors(int /*step*/, int half, const StepScales& scales) const {
        return {{scales.a[row_], scales.a[row_ + 8]}, scales.b + half * half_columns + column_};
    }
    __device__ static void add(float* c, const float* sums, int eight, const Factors& factors) {
        const auto of_columns =
            load(reinterpret_cast<const Vec<float, 2>*>(factors.columns + 8 * eight));
        unrolled<4>(
            [&](int i) { c[i] = fma(sums[i], factors.row[i / 2] * of_columns[i % 2], c[i]); });
    }

private:
    int row_;
    int column_;
};

/// Adds the sums of each step to c in fp32, because the tensor cores add products of FP8 with fewer
/// bits. The sums of a half of the columns take 64 registers beside the 128 of c. While one group
/// adds, the other one's multiplies run.
template <class T, bool is_divided, Scaling how>
class PromotedProducts {
public:
    static constexpr Major a_major = Major::k;
    static constexpr Major b_major = Major::k;
    static constexpr bool divided = is_divided;
    static constexpr bool promoted = true;
    static constexpr bool sums_rows = false;
    static constexpr Scaling scaling = how;

    __device__ PromotedProducts(GemmShared& shared, int group) : group_(group), step_(shared) {}

    /// c = the sum of so many steps. Of a tile whose second half is behind the matrix, `both` is
    /// false, and that half 0. The branch also keeps the compiler from starting the products of one
    /// half before the sums of the other are added, which would take 64 registers more.
    template <class Scales = PlainSums>
    __device__ void add(Sums& c, int steps, bool both, const Scales& scales = {}) {
        unrolled<tile_columns / 2>([&](int i) { c[i] = 0; });
        for (int left = steps; left > 0; --left) {
            step_.wait_for_next();
            unrolled<2>([&](int half) {
                if (half == 0 || both) add_half(c, half, steps - left, scales);
            });
            // Two lanes say for all that the scales may be overwritten.
            if constexpr (Scales::loaded) warp_barrier();
            step_.release();
        }
    }

private:
    template <class Scales>
    __device__ void add_half(Sums& c, int half, int step, const Scales& scales) const {
        const Stage& stage = step_.operands();
        // They arrive while the products run.
        const typename Scales::Factors factors = scales.factors(step, half, step_.scales());
        StepSums sums;
        start_step<T>(sums, operand<a_major>(stage.a + group_ * panel_bytes),
                      operand<b_major>(stage.b[half]), false);
        warpgroup_wait<0>();
        pin_registers(sums);
        unrolled<half_columns / 8>([&](int eight) {
            Scales::add(c + half * (half_columns / 2) + 4 * eight, sums + 4 * eight, eight,
                        factors);
        });
    }

    int group_;
    LoadedStep step_;
};

}  // namespace gptrain::cuda::sm90
