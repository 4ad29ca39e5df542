// A linear op as a value, without the elements of its matrices: what the choice of a way to compute
// it may depend on.
#pragma once

#include <compare>
#include <cstdint>
#include <set>

#include "backend/ops.h"

namespace gptrain {

/// Rows of elements that lie side by side.
struct MatrixForm {
    std::int64_t rows = 0;  ///< 0: the op is without this matrix
    std::int64_t cols = 0;
    std::int64_t row_stride = 0;
    std::int64_t offset = 0;  ///< address modulo `alignment`
    DType dtype = DType::f32;

    static constexpr std::int64_t alignment = 16;
    bool is_float8() const { return size_of(dtype) == 1; }
    auto operator<=>(const MatrixForm&) const = default;
};

struct LinearOp {
    enum class Kind : std::int32_t { forward, input_grad, weight_grad };

    Kind kind = Kind::forward;
    MatrixForm first;   ///< x; of the gradients dy. In 8 bits: its rows, of weight_grad its columns
    MatrixForm second;  ///< weight; of weight_grad x. In 8 bits: its rows, of the gradients columns
    MatrixForm extra;   ///< bias, gelu_input; the gradient of a bias is not part of the product
    MatrixForm result;  ///< y, dx, dweight
    MatrixForm gelu;    ///< of y

    LinearOp() = default;
    explicit LinearOp(const LinearForward& args);
    explicit LinearOp(const LinearInputGrad& args);
    explicit LinearOp(const LinearWeightGrad& args);
    auto operator<=>(const LinearOp&) const = default;
};

using LinearOps = std::set<LinearOp>;

}  // namespace gptrain
