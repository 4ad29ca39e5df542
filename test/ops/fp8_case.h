// Sizes and ops that several cases of FP8 share.
#pragma once

#include <algorithm>

#include "op_case.h"

namespace gptrain::fp8_case {

/// Of a product.
struct Size {
    std::int64_t tokens, inputs, outputs;
    bool large = false;
};
/// Of a matrix with `gap` elements between its rows.
struct Dims {
    std::int64_t rows, cols;
    std::int64_t gap = 0;
    bool large = false;
};

inline OpCase make_case(std::string_view op, const std::string& rest, bool large) {
    OpLimits limits;
    limits.compute = DType::bf16;
    limits.sequences = 1;
    limits.seq_length = 256;
    limits.widest = 272;
    OpCase result(text(op, " ", rest), limits);
    result.large = large;
    return result;
}

inline OpCase product_case(std::string_view op, const Size& size) {
    OpCase result = make_case(op, text("fp8 T", size.tokens, " I", size.inputs, " O", size.outputs),
                              size.large);
    result.flops = 2.0 * static_cast<double>(size.tokens * size.inputs * size.outputs);
    result.limits.widest = std::max(size.inputs, size.outputs);
    return result;
}

/// The op then computes dweight from the operands' `Fp8Matrix columns(const Tensors&) const`.
template <class Columns>
void run_weight_grad(OpCase& op, const Columns& x, const Columns& dy, Operand dweight,
                     bool accumulate) {
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearWeightGrad{.x = {},
                                     .dy = {},
                                     .dweight = at[dweight],
                                     .dbias = {},
                                     .x8 = x.columns(at),
                                     .dy8 = dy.columns(at),
                                     .accumulate = accumulate});
    };
}

}  // namespace gptrain::fp8_case
