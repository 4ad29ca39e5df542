// How the GEMM kernel for sm_90a (cuda/gemm/sm90/) divides a GEMM among blocks, and which GEMMs it
// computes: plain numbers that depend only on sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/scratch.h"
#include "cuda/gemm/gemm.h"
#include "cuda/gemm/grouped_gemm.h"

namespace gptrain::cuda::sm90 {

/// A block computes a tile of c: `tile_rows` x `tile_columns`, in steps of `step_length` of the
/// summed dim. The two blocks of a cluster have tiles one below the other, and share b.
constexpr int tile_rows = 128;
constexpr int tile_columns = 256;
constexpr int step_length = 64;
constexpr int step_bytes = 2 * step_length;  ///< of a row; 128 elements of FP8
constexpr int cluster_blocks = 2;
/// Rows of a tile that one warpgroup computes.
constexpr int group_rows = 64;
constexpr int tile_groups = tile_rows / group_rows;
/// Columns of a tile whose b one block of a cluster loads for both; with SwiGLU those of fc, or of
/// gate.
constexpr int half_columns = tile_columns / 2;

/// The summed dim may be divided in at most so many parts.
constexpr std::int64_t most_parts = 16;

/// The contiguous dims of a and b.
enum class GemmLayout {
    k_k,    ///< both the summed one: a layer's output
    k_mn,   ///< a's the summed one, b's its columns: an input gradient
    mn_mn,  ///< a's rows and b's columns: a weight gradient
};

/// True if the kernel computes this GEMM, but not a_sums: 16-bit operands, all matrices with a
/// contiguous dim that is a multiple of 8 and rows aligned to 16 bytes, and a c that the linear op
/// of its layout has: of the operands' dtype, or fp32 of a weight gradient, or either of a forward
/// GEMM. GELU, SwiGLU and their derivatives only with a 16-bit c of the op that has them; SwiGLU
/// only where its matrices and the weight are contiguous.
///
/// Or FP8 operands, with the summed dim contiguous in both and a multiple of 16, as the recipes of
/// a run have them: x and weight in f8e4m3 with fast accumulation or scales for blocks, dy in
/// f8e5m2 without, or in f8e4m3 with scales for blocks. c is bf16, or fp32 of a weight gradient; a
/// bias or accumulation is possible, GELU and SwiGLU are not.
bool covers_gemm(const Gemm& gemm);
/// Of a GEMM that is covered.
GemmLayout layout_of(const Gemm& gemm);
/// True if the summed dim may be divided: of weight gradients.
bool may_divide(const Gemm& gemm);
/// True if the kernel also computes the a_sums that the GEMM has: of 16-bit weight gradients.
bool may_sum_rows(const Gemm& gemm);

/// A unit of work is a pair of tiles and a part of the summed dim.
struct UnitPlan {
    std::int64_t pairs;    ///< of tiles, one below the other
    std::int64_t columns;  ///< of tiles
    std::int64_t steps;    ///< of step_bytes, in the whole summed dim
    std::int64_t parts;    ///< of the summed dim
    /// fp32 sums of a's rows, for all parts.
    std::int64_t row_sums;

    UnitPlan(const Gemm& gemm, std::int64_t parts_);
    std::int64_t tiles() const { return pairs * columns * cluster_blocks; }
    std::int64_t units() const { return pairs * columns * parts; }
    /// The next unit, and whose turn it is at the sums of each group of each tile.
    std::int64_t counters() const { return 1 + (parts > 1 ? tiles() * tile_groups : 0); }
    /// fp32 sums that one part hands to the next.
    std::int64_t sums() const { return parts > 1 ? tiles() * tile_rows * tile_columns : 0; }
    std::int64_t scratch_bytes() const {
        return Scratch::bytes_of<unsigned>(counters()) + Scratch::bytes_of<float>(sums()) +
               Scratch::bytes_of<float>(row_sums);
    }
};

/// Numbers of parts worth a try on so many multiprocessors, at least 1: without division, and the
/// two best by their waves, for weight gradients alone. Their scratch memory has at most `bytes`.
std::vector<std::int64_t> parts_to_try(const Gemm& gemm, std::int64_t multiprocessors,
                                       std::int64_t bytes);

/// True if the kernel for grouped GEMMs computes these: 16-bit operands, O and I multiples of 8,
/// all tensors contiguous and aligned to 16 bytes, at least one row.
bool covers_grouped(const GroupedGemm& gemm);
/// Upper bound of the number of units: each expert may need one more pair of tiles than its rows
/// fill.
std::int64_t most_grouped_units(const GroupedGemm& gemm);

}  // namespace gptrain::cuda::sm90
