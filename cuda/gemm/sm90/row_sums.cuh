// The sums of a's rows beside a weight gradient: a is dy transposed, so they are a bias gradient.
#pragma once

#include "cuda/device/pieces.cuh"
#include "cuda/gemm/sm90/multiply.cuh"

namespace gptrain::cuda::sm90 {

/// The products of a weight gradient, for a kernel that sums the rows of a as well.
template <class T>
class ProductsAndRowSums : public StepProducts<T, Major::mn, Major::mn> {
public:
    static constexpr bool sums_rows = true;
    using StepProducts<T, Major::mn, Major::mn>::StepProducts;
};

/// A warp sums its 16 rows of c, which are 16 columns of a panel in shared memory: two pieces of
/// 16 bytes in each of 64 rows. A lane adds one piece of every 16th of these rows, and a quarter
/// of a warp reads 4 rows whose pieces are in different banks. The order depends on the steps of
/// the unit alone.
template <class T>
class RowSums {
public:
    __device__ explicit RowSums(int group) {
        const int piece = warp_index() % group_warps * 2 + lane_index() % 2;
        const int row = lane_index() / 16 * 8 + lane_index() / 2 % 4 * 2 + lane_index() / 8 % 2;
        from_ = group * panel_bytes + row * row_bytes + (piece ^ (row % 8)) * 16;
        first_row_ = piece * width;
    }

    /// Adds a step. Its products may run meanwhile.
    __device__ void add(const Stage& stage) {
        unrolled<step_length / rows_at_once>([&](int i) {
            float x[width];
            const std::byte* from = stage.a + from_ + i * rows_at_once * row_bytes;
            widen(load(reinterpret_cast<const Vec16<T>*>(from)), x);
            unrolled<width>([&](int j) { sums_[j] = sums_[j] + x[j]; });
        });
        // Two lanes say for all that the step may be overwritten.
        warp_barrier();
    }
    /// Stores the sums at to[0], to[1], ... for as many of the group's rows of c as exist.
    __device__ void store_rows(float* to, int rows) {
        unrolled<width>([&](int j) {
            for (int mask = 2; mask < warp_threads; mask *= 2)
                sums_[j] = sums_[j] + shuffle_xor(sums_[j], mask);
        });
        if (lane_index() >= 2 || first_row_ >= rows) return;
        unrolled<2>([&](int i) {
            store(
                reinterpret_cast<Vec<float, 4>*>(to + first_row_ + 4 * i),
                Vec<float, 4>{sums_[4 * i], sums_[4 * i + 1], sums_[4 * i + 2], sums_[4 * i + 3]});
        });
    }

private:
    static constexpr int width = piece_width<T>;
    static constexpr int rows_at_once = warp_threads / 2;

    int from_;       ///< the lane's first piece, in a stage's a
    int first_row_;  ///< of the lane's piece, among the group's
    float sums_[width] = {};
};

}  // namespace gptrain::cuda::sm90
