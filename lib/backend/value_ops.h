// Ops on plain values: constants, casts, sums, random numbers, FP8 matrices, checksums. Legend of
// the shapes: ops.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/shard.h"

namespace gptrain {

/// x = value, converted to x's dtype.
struct Fill {
    static constexpr std::string_view name = "fill";
    Tensor x;  ///< contiguous, =
    float value = 0;
    void tensors(const auto& list) const { list.writes(x); }
};

/// to = from, rounded to to's dtype.
struct Cast {
    static constexpr std::string_view name = "cast";
    Tensor to;    ///< fp32 or compute dtype, =
    Tensor from;  ///< fp32 or compute dtype
    void tensors(const auto& list) const { list.reads(from).writes(to); }
};

/// x += y, rounded once.
struct Add {
    static constexpr std::string_view name = "add";
    Tensor x;  ///< fp32 or compute dtype, any shape, +=
    Tensor y;  ///< like x
    void tensors(const auto& list) const { list.reads(y).updates(x); }
};

/// to = the sum of the rows, added in their order in fp32.
struct SumRows {
    static constexpr std::string_view name = "sum_rows";
    Tensor to;    ///< n elements, fp32 or like rows, =
    Tensor rows;  ///< compute dtype [p, n]
    void tensors(const auto& list) const { list.reads(rows).writes(to); }
};

/// x = N(0, std). Element e of the whole tensor is a function of (seed, name, e) alone, whichever
/// shard holds it. Words w0 .. w3 of counter e / 4 (low, high half) of the stream
/// philox_stream(seed, name_hash(name), 0, 0) give the elements of that block by Box-Muller: with
/// u = (floor(w0 / 256) + 1) / 2^24 and v = floor(w1 / 256) / 2^24, the first two are
/// std sqrt(-2 ln u) times cos(2 pi v) and sin(2 pi v); w2 and w3 give the other two.
struct InitNormal {
    static constexpr std::string_view name = "init_normal";
    Tensor x;  ///< fp32, the shard's elements, =
    Shard shard;
    std::uint64_t seed = 0;
    float std = 1;
    void tensors(const auto& list) const { list.writes(x); }
};

// An op whose result will be converted to FP8 can also compute its amax. `amax` (fp32 [1], or empty
// if not needed) = max(amax, largest absolute value of the stored result). NaN is ignored.

/// amax = max(amax, largest absolute value of x). NaN is ignored.
struct UpdateAmax {
    static constexpr std::string_view name = "update_amax";
    Tensor x;     ///< contiguous or rows, fp32 or compute dtype
    Tensor amax;  ///< fp32 [1]
    void tensors(const auto& list) const { list.reads(x).updates(amax); }
};

/// An FP8 matrix [R, C]: element = stored x its scale. GEMMs reduce over the contiguous dim; a
/// matrix reduced over both dims is stored both ways. It has one scale, or one for each block of
/// 128 elements along the reduced dim (activations and gradients) or of 128 x 128 (weights).
struct Fp8Matrix {
    Tensor rowwise;     ///< f8e4m3 or f8e5m2 [R, C] or empty
    Tensor columnwise;  ///< its transpose [C, R] or empty
    /// fp32 [1]; of blocks of rowwise as fp8_row_scales or fp8_block_scales
    Tensor scale;
    Tensor column_scale = {};  ///< of blocks of columnwise; empty with one scale
    bool empty() const { return scale.empty() && column_scale.empty(); }
    bool in_blocks() const { return scale.rank() == 2 || !column_scale.empty(); }
    /// The scales of columnwise.
    const Tensor& of_columns() const { return in_blocks() ? column_scale : scale; }
};

/// Elements of a row that share a scale, and rows of a weight that do.
constexpr std::int64_t fp8_block = 128;

/// Shape of the scales of blocks of 1 x 128: scale (c / 128, r) belongs to element (r, c). The last
/// block of a row may be shorter. This is the layout that cuBLASLt's VEC128_32F reads.
inline Shape fp8_row_scales(std::int64_t rows, std::int64_t columns) {
    return {div_ceil(columns, fp8_block), rows};
}
/// Shape of the scales of blocks of 128 x 128: scale (r / 128, c / 128) belongs to element (r, c).
/// Rows of scales are padded with zeros to a multiple of 4, as cuBLASLt's BLK128x128_32F reads
/// them.
inline Shape fp8_block_scales(std::int64_t rows, std::int64_t columns) {
    return {div_exact(rows, fp8_block), round_up(div_exact(columns, fp8_block), 4)};
}

/// Below it the factor to FP8 would exceed the numbers of fp32.
constexpr float fp8_smallest_amax = 0x1p-100f;

/// scale = amax / largest number of the format, stored = x (largest / amax), both 1 in place of the
/// quotient if amax is below fp8_smallest_amax. Rounded to nearest even; values beyond the largest
/// saturate, NaN stays NaN.
struct ToFp8 {
    static constexpr std::string_view name = "to_fp8";
    Tensor x;       ///< [R, C] rows, or [R C]; fp32 or compute dtype
    Tensor amax;    ///< fp32 [1]: largest absolute value of the whole matrix
    Fp8Matrix out;  ///< =; columnwise requires x of rank 2
    /// fp32 [C] or empty: += the sum of the rows of x, which must be of rank 2
    Tensor row_sum = {};
    void tensors(const auto& list) const {
        list.reads(x, amax).writes(out.rowwise, out.columnwise, out.scale).updates(row_sum);
    }
};

/// The columns of an FP8 matrix from its rows.
struct TransposeFp8 {
    static constexpr std::string_view name = "transpose_fp8";
    Tensor rowwise;     ///< [R, C], contiguous
    Tensor columnwise;  ///< [C, R], of the same dtype, =
    void tensors(const auto& list) const { list.reads(rowwise).writes(columnwise); }
};

// With blocks, scale and stored values are those of ToFp8 with the largest absolute value of the
// block, in which NaN is ignored.

/// An activation or a gradient with scales for blocks of 1 x 128. Ops of the model write the same
/// beside their output or in place of it: rows and scales as this op makes them from the output as
/// stored. They do so in bf16 only, and from contiguous rows.
struct ToFp8Rows {
    static constexpr std::string_view name = "to_fp8_rows";
    Tensor x;       ///< [R, C] rows that begin at multiples of 16 bytes; C a multiple of 128
    Fp8Matrix out;  ///< =; rowwise and scale
    void tensors(const auto& list) const { list.reads(x).writes(out.rowwise, out.scale); }
};

/// The transpose of an activation or a gradient, with scales for blocks of 1 x 128 of it: 128 rows
/// of x.
struct ToFp8Columns {
    static constexpr std::string_view name = "to_fp8_columns";
    Tensor x;       ///< [R, C] rows that begin at multiples of 16 bytes; R and C multiples of 16
    Fp8Matrix out;  ///< =; columnwise, and column_scale of fp8_row_scales(C, R)
    /// fp32 [C] or empty: += the sum of the rows of x
    Tensor row_sum = {};
    void tensors(const auto& list) const {
        list.reads(x).writes(out.columnwise, out.column_scale).updates(row_sum);
    }
};

/// A weight with scales for blocks of 128 x 128.
struct ToFp8Blocks {
    static constexpr std::string_view name = "to_fp8_blocks";
    Tensor x;       ///< [R, C], contiguous; R and C multiples of 128
    Fp8Matrix out;  ///< =; all four
    void tensors(const auto& list) const {
        list.reads(x).writes(out.rowwise, out.columnwise, out.scale, out.column_scale);
    }
};

/// A matrix [R, C] of 8-bit integers, or several [.., R, C]: element (r, c) of one is
/// values(r, c) x scales(r, c / block).
struct Int8Matrix {
    static constexpr std::int64_t block = 64;  ///< elements of a row that share a scale
    Tensor values;                             ///< i8 [.., R, C]
    Tensor scales;                             ///< fp32 [.., R, blocks_of(C)]
    static constexpr std::int64_t blocks_of(std::int64_t columns) {
        return div_ceil(columns, block);
    }
    bool empty() const { return values.empty(); }
    /// All rows of contiguous matrices as those of one.
    Int8Matrix as_one() const { return {rows_of(values), rows_of(scales)}; }
    /// x [.., R, C], contiguous, as a matrix.
    static Tensor rows_of(const Tensor& x) {
        const std::int64_t columns = x.size(x.rank() - 1);
        return x.view({div_exact(x.elements(), columns), columns});
    }
};

constexpr float int8_smallest_amax = 0x1p-100f;

/// For each block of 64 elements of a row: scale = amax / 127, value = x (127 / amax), rounded to
/// nearest even. A block with an amax below int8_smallest_amax becomes 0, with scale 0. One with an
/// element that is not finite becomes NaN, with scale NaN.
struct ToInt8 {
    static constexpr std::string_view name = "to_int8";
    Tensor x;        ///< [R, C] rows, fp32 or compute dtype
    Int8Matrix out;  ///< =
    void tensors(const auto& list) const { list.reads(x).writes(out.values, out.scales); }
};

/// out = x, rounded once
struct FromInt8 {
    static constexpr std::string_view name = "from_int8";
    Int8Matrix x;  ///< [R, C]
    Tensor out;    ///< [R, C] rows, compute dtype, =
    void tensors(const auto& list) const { list.reads(x.values, x.scales).writes(out); }
};

/// sum += sum over i of h(w_i + (i + 1) 0x9e3779b97f4a7c15), modulo 2^64. The words w_i are x's
/// bytes, eight at a time, little-endian, zero-padded at the end; h(v) = p xor (p >> 32) with
/// p = 0xd6e8feb86659fd93 v. Changing any single word changes the sum.
struct Checksum {
    static constexpr std::string_view name = "checksum";
    Tensor x;    ///< contiguous, any dtype
    Tensor sum;  ///< i64 [1], +=
    void tensors(const auto& list) const { list.reads(x).updates(sum); }
};

}  // namespace gptrain
