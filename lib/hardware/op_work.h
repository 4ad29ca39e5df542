// An op as a time model sees it.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace gptrain {

/// An op, reduced to what its time depends on.
struct OpWork {
    enum class Kind : std::uint8_t {
        gemm,
        attention_forward,
        attention_backward,
        other,
        optimizer
    };

    Kind kind = Kind::other;
    DType dtype = DType::f32;    ///< of a GEMM's operands
    std::string_view name = "";  ///< static text, as in backend/ops.h
    std::int64_t groups = 1;     ///< GEMMs of these sizes, one for each expert, in one op
    std::int64_t rows = 0;       ///< of a GEMM's output
    std::int64_t cols = 0;       ///< of a GEMM's output
    std::int64_t length = 0;     ///< dim that a GEMM sums over; keys of a sequence in attention
    std::int64_t head_dim = 0;   ///< of attention
    double flops = 0;
    double bytes = 0;  ///< read and written
    /// The bytes that a separate kernel would read and write for GELU, or GELU', at the end of a
    /// GEMM.
    double gelu_bytes = 0;
    double gelu_gradient_bytes = 0;
    /// The bytes that attention writes in FP8 beside its output.
    double fp8_bytes = 0;

    bool operator==(const OpWork&) const = default;
};

}  // namespace gptrain
