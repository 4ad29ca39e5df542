// The state that the warps of the GEMM kernel for sm_90a share: its arguments, the shared memory of
// a block, and the places of units of work.
#pragma once

#include "cuda/device/cluster.cuh"
#include "cuda/device/pipeline.cuh"
#include "cuda/gemm/sm90_plan.h"

namespace gptrain::cuda::sm90 {

constexpr int stages = 4;         ///< steps whose operands are in shared memory
constexpr int unit_slots = 2;     ///< units that a cluster knows of ahead
constexpr int store_buffers = 2;  ///< of each computing group
constexpr int panel_columns = 64;
constexpr int threads_of_block = (1 + tile_groups) * group_threads;
/// Registers per thread; together all registers of a multiprocessor.
constexpr int loader_registers = 40;
constexpr int compute_registers = 232;

/// Bytes of 128 rows or columns of an operand, for one step.
constexpr int half_bytes = 128 * step_bytes;
/// Bytes of a panel of 64 x 64 elements.
constexpr int panel_bytes = 64 * row_bytes;

/// The result of a GEMM.
enum class GemmResult {
    rounded,     ///< 16 bits: of the sums, plus a bias or what c held
    gelu,        ///< the same with a bias, and its GELU
    gelu_slope,  ///< 16 bits: of the sums times the derivative of GELU
    sums,        ///< fp32, plus a bias or what c held
    /// 16 bits [fc | gate], plus a bias, and their SwiGLU. A tile has the same columns of both.
    swiglu,
    swiglu_slope,  ///< 16 bits: the gradient of [fc | gate], from the rounded sums
};

/// Arguments of the kernel.
struct GemmWork {
    /// In elements of 16 bits. Boxes of 128 rows, or of step_length rows if k is not contiguous.
    TensorMap a, b;
    /// Boxes of group_rows; unused if c is fp32. With SwiGLU, places in c are {column, 0 for fc or
    /// 1 for gate, row, 0}, c being its gradient for swiglu_slope.
    TensorMap c;
    TensorMap activated;  ///< the same of gelu or swiglu
    int rows;
    int cols;     ///< of c, with SwiGLU of fc or gate alone
    int pairs;    ///< of tiles, as in UnitPlan
    int columns;  ///< of tiles
    int steps;
    int parts;
    unsigned* next_unit;  ///< index of the next unit that a cluster takes
    unsigned* turns;      ///< for each group of each tile: the parts that have added to its sums
    /// Sums of parts, for each group of each tile: register 4 i + j of thread t is at
    /// 512 i + 4 t + j.
    float* sums;
    float* row_sums;  ///< for each part: the sums of a's rows
    std::byte* to;    ///< c
    std::int64_t to_stride;
    const std::byte* bias;
    const std::byte* activation_input;  ///< of GELU, or [fc | gate]
    std::int64_t activation_stride;
    bool accumulate;
    const float* a_scale;  ///< FP8: the first
    const float* b_scale;
    std::int64_t a_scale_step;  ///< in blocks: from 128 of k to the next, whose rows lie together
    /// In blocks of 128 columns: from these to the next, whose k lie together. In strips: as of a.
    std::int64_t b_scale_step;

    __device__ int units() const { return pairs * columns * parts; }
};

/// A unit that a cluster has taken: its number, or work.units() after the last one. A grouped GEMM
/// (grouped.cuh) counts the units of each expert, and has its rows: the first, and how many.
struct TakenUnit {
    unsigned number;
    unsigned expert;  ///< the number of experts after the last unit
    unsigned begin;
    unsigned rows;
};

/// The operands of one step.
struct Stage {
    std::byte a[half_bytes];
    std::byte b[2][half_bytes];  ///< one half from each block of the cluster
};

/// The scales of one step's strips. Those behind the matrix hold anything.
struct StepScales {
    alignas(16) float a[tile_rows];
    alignas(16) float b[tile_columns];
};

struct GemmShared {
    alignas(1024) Stage operands[stages];
    union {
        std::byte results[tile_groups][store_buffers][panel_bytes];  ///< of 16 bits
        StepScales scales[stages];  ///< of strips, whose results are fp32
    };
    BufferBarriers steps[stages];
    BufferBarriers units[unit_slots];
    TakenUnit taken[unit_slots];
};
static_assert(sizeof(GemmShared) <= shared_bytes_of_block);

namespace barrier {
constexpr int group = 1;  ///< + group
constexpr int both_groups = group + tile_groups;
}  // namespace barrier

/// A unit of work as one block of the cluster sees it.
struct UnitPlace {
    int row;     ///< of c, the first of the block's tile
    int column;  ///< of c
    int tile;    ///< number of the block's tile
    int part;
    int first_step;
    int last_step;  ///< the one after the last
};

/// A pair of tiles among all of a matrix.
struct PairPlace {
    int pair;
    int column;
};

/// Pairs below each other come first, for as many as make a band, then columns: clusters that run
/// together share rows of a and columns of b, which stay in the L2 cache.
__device__ inline PairPlace pair_at(int index, int pairs, int columns) {
    constexpr int band = 8;
    const int first = index / (band * columns) * band;
    const int height = std::min(band, pairs - first);
    const int in_band = index % (band * columns);
    return {first + in_band % height, in_band / height};
}

/// Parts come one after the other.
__device__ inline UnitPlace place_of(const GemmWork& work, int unit, int rank) {
    const int in_part = work.pairs * work.columns;
    const int part = unit / in_part;
    const auto [pair, column] = pair_at(unit % in_part, work.pairs, work.columns);
    const auto step = [&](int begin) {
        return static_cast<int>(std::int64_t{work.steps} * begin / work.parts);
    };
    return {(pair * cluster_blocks + rank) * tile_rows,
            column * tile_columns,
            (pair * work.columns + column) * cluster_blocks + rank,
            part,
            step(part),
            step(part + 1)};
}

}  // namespace gptrain::cuda::sm90
