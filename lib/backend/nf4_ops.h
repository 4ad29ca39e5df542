// Ops on matrices in NF4 (base/nf4.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/value_ops.h"
#include "base/nf4.h"

namespace gptrain {

/// A rank's part [R, C] of a matrix, or [E, R, C] of one of each expert, contiguous. A multiple of
/// nf4_block elements of each.
struct Nf4Matrix {
    Shape shape;
    Tensor codes;    ///< u8 [elements / 2]
    Tensor scales;   ///< fp32 [elements / nf4_block], or u8 if they are nested
    Tensor factors;  ///< fp32, of nested scales (nf4_factors_size); else empty
    Nf4Part part;

    Nf4Scales scales_of_blocks() const {
        if (factors.empty()) return {.scales = scales.as<float>(), .part = part};
        return {.codes = scales.as<std::uint8_t>(), .factors = factors.as<float>(), .part = part};
    }
};

/// out = x, rounded once
struct FromNf4 {
    static constexpr std::string_view name = "from_nf4";
    Nf4Matrix x;
    Tensor out;  ///< of x's shape, contiguous, compute dtype, =
    void tensors(const auto& list) const { list.reads(x.codes, x.scales, x.factors).writes(out); }
};

/// out[e] = x[e], rounded once, for every expert e that has rows; the others stay as they are
struct GroupedFromNf4 {
    static constexpr std::string_view name = "grouped_from_nf4";
    Nf4Matrix x;            ///< [E, O, I]
    Tensor offsets;         ///< i32 [E + 1]
    Tensor out;             ///< [E, O, I], contiguous, compute dtype
    std::int64_t rows = 0;  ///< R: no more experts have rows; time is estimated by that
    void tensors(const auto& list) const {
        list.reads(x.codes, x.scales, x.factors, offsets).writes(out);
    }
};

/// y = x weight^T + bias, rounded once, for at most few_rows rows. Reads the weight once.
struct Nf4LinearForward {
    static constexpr std::string_view name = "nf4_linear_forward";
    Tensor x;          ///< [T, I] rows; I is a multiple of nf4_block
    Nf4Matrix weight;  ///< [O, I]
    Tensor bias;       ///< [O] or empty
    Tensor y;          ///< [T, O] rows, =
    void tensors(const auto& list) const {
        list.reads(x, weight.codes, weight.scales, weight.factors, bias).writes(y);
    }
};

}  // namespace gptrain
