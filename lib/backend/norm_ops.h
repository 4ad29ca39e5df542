// Ops of the model: norms and the residual stream. Legend of the shapes: ops.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/dropout.h"
#include "backend/value_ops.h"
#include "tensor/tensor.h"

namespace gptrain {

/// layernorm: n = (r - mean) rstd weight + bias, rstd = 1 / sqrt(variance + eps);
/// rmsnorm: n = r rstd weight + bias, rstd = 1 / sqrt(mean of r^2 + eps)
struct Norm {
    bool rms = false;
    float eps = 1e-5f;
    Tensor weight;  ///< [H]
    Tensor bias;    ///< [H] or empty
};

/// r_out = round(r + dropout(y))
struct ResidualAdd {
    static constexpr std::string_view name = "residual_add";
    Tensor r;                     ///< [T, H]
    Tensor y;                     ///< [T, H]
    Dropout dropout;              ///< of y
    Tensor r_out;                 ///< [T, H], =; may be r itself
    std::int64_t seq_length = 0;  ///< S
    void tensors(const auto& list) const { list.reads(r, y).writes(r_out); }
};

/// r_out as in ResidualAdd, then n = norm(r_out), computed from r_out as stored.
/// Without y: n = norm(r), and r_out is empty.
/// A second call without y, on the stored r_out, recomputes n bit for bit.
struct ResidualNormForward {
    static constexpr std::string_view name = "residual_norm_forward";
    Tensor r;         ///< [T, H]
    Tensor y;         ///< [T, H] or empty
    Dropout dropout;  ///< of y
    Tensor r_out;     ///< [T, H], =; may be r itself
    Norm norm;
    Tensor n;                     ///< [T, H], =; may be empty with n8
    Tensor mean;                  ///< fp32 [T], =; empty for rmsnorm
    Tensor rstd;                  ///< fp32 [T], =
    std::int64_t seq_length = 0;  ///< S
    Tensor amax = {};             ///< of n; not with n8
    Fp8Matrix n8 = {};            ///< n by ToFp8Rows, =, or empty
    void tensors(const auto& list) const {
        list.reads(r, y, norm.weight, norm.bias)
            .writes(r_out, n, mean, rstd, n8.rowwise, n8.scale)
            .updates(amax);
    }
};

/// dr (+)= the gradient of norm with respect to r; dy = the gradient of dropout(y), from the new
/// dr.
struct ResidualNormBackward {
    static constexpr std::string_view name = "residual_norm_backward";
    Tensor dn;  ///< [T, H]
    Tensor r;   ///< [T, H], the norm's input as stored
    Norm norm;
    Tensor mean;  ///< fp32 [T]
    Tensor rstd;  ///< fp32 [T]
    Tensor dr;    ///< [T, H]; += if `accumulate`, else =
    bool accumulate = true;
    Dropout dropout;              ///< of y
    Tensor dy;                    ///< [T, H], =; empty if no dropout makes it differ from dr
    Tensor dweight;               ///< fp32 [H] or empty, +=
    Tensor dbias;                 ///< fp32 [H] or empty, +=
    std::int64_t seq_length = 0;  ///< S
    Tensor amax = {};             ///< of dy, or of dr if dy is empty; not with dy8
    Fp8Matrix dy8 = {};           ///< the same by ToFp8Rows, =, or empty
    void tensors(const auto& list) const {
        list.reads(dn, r, norm.weight, mean, rstd)
            .writes(dy, dy8.rowwise, dy8.scale)
            .updates(dweight, dbias, amax);
        accumulate ? list.updates(dr) : list.writes(dr);
    }
};

/// y = dropout(x): each feature times 0 or 1 / (1 - probability). The gradient is the same function
/// of the gradient.
struct ApplyDropout {
    static constexpr std::string_view name = "apply_dropout";
    Tensor x;  ///< [T, H]
    Dropout dropout;
    Tensor y;  ///< [T, H], =; may be x itself
    std::int64_t seq_length = 0;
    Tensor amax = {};  ///< of y
    void tensors(const auto& list) const { list.reads(x).writes(y).updates(amax); }
};

/// RMSNorm of each head: y = x rstd weight, rstd = 1 / sqrt(mean of x^2 + eps)
struct HeadNormForward {
    static constexpr std::string_view name = "head_norm_forward";
    Tensor x;       ///< [T, heads, D], strided, D contiguous
    Tensor weight;  ///< [D]
    float eps = 1e-5f;
    Tensor y;  ///< like x, =; may be x itself
    void tensors(const auto& list) const { list.reads(x, weight).writes(y); }
};

/// The statistics are computed again from x.
struct HeadNormBackward {
    static constexpr std::string_view name = "head_norm_backward";
    Tensor dy;      ///< like x
    Tensor x;       ///< [T, heads, D], strided, D contiguous
    Tensor weight;  ///< [D]
    float eps = 1e-5f;
    Tensor dx;       ///< like x, =; may be dy itself
    Tensor dweight;  ///< fp32 [D] or empty, +=
    void tensors(const auto& list) const { list.reads(dy, x, weight).writes(dx).updates(dweight); }
};

// RMSNorm of rows of W features of which every rank has a part: RowDots, then all_reduce (sum) of
// `dots`, then RowNormForward or RowNormBackward. `width` counts the features of all ranks.

/// dots[t] = sum of x[t] z[t] weight, over this rank's features. The order depends on W alone.
struct RowDots {
    static constexpr std::string_view name = "row_dots";
    Tensor x;       ///< [T, W] rows
    Tensor z;       ///< [T, W] rows; may be x itself
    Tensor weight;  ///< [W], or empty: ones
    Tensor dots;    ///< fp32 [T], =
    void tensors(const auto& list) const { list.reads(x, z, weight).writes(dots); }
};

/// y = x rstd weight, rstd = 1 / sqrt(squares / width + eps)
struct RowNormForward {
    static constexpr std::string_view name = "row_norm_forward";
    Tensor x;        ///< [T, W] rows
    Tensor weight;   ///< [W]
    Tensor squares;  ///< fp32 [T]: the sum of x^2 over all ranks
    std::int64_t width = 0;
    float eps = 1e-5f;
    Tensor y;  ///< [T, W] rows, =; may be x itself
    void tensors(const auto& list) const { list.reads(x, weight, squares).writes(y); }
};

/// dx = rstd (dy weight - x rstd^2 dots / width); dweight += the sum over T of dy x rstd
struct RowNormBackward {
    static constexpr std::string_view name = "row_norm_backward";
    RowNormForward forward;  ///< the arguments of the forward call; y is not read
    Tensor dy;               ///< [T, W] rows
    Tensor dots;             ///< fp32 [T]: the sum of dy x weight over all ranks
    Tensor dx;               ///< [T, W] rows, =; may be dy itself
    Tensor dweight;          ///< fp32 [W] or empty, +=
    void tensors(const auto& list) const {
        list.reads(forward.x, forward.weight, forward.squares, dy, dots)
            .writes(dx)
            .updates(dweight);
    }
};

}  // namespace gptrain
