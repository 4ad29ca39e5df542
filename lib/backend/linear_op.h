// The shape of a linear op, perhaps one of experts: everything that algorithm selection may depend
// on, without the data.
#pragma once

#include <compare>
#include <cstdint>
#include <set>

#include "backend/ops.h"

namespace gptrain {

/// Layout of a matrix whose rows are contiguous.
struct MatrixLayout {
    std::int64_t rows = 0;  ///< 0: the op lacks this matrix
    std::int64_t cols = 0;
    std::int64_t row_stride = 0;
    std::int64_t offset = 0;  ///< address modulo `alignment`
    DType dtype = DType::f32;

    static constexpr std::int64_t alignment = 16;
    bool is_fp8() const { return size_of(dtype) == 1; }
    auto operator<=>(const MatrixLayout&) const = default;
};

struct LinearOp {
    enum class Kind : std::int32_t {
        forward,
        input_grad,
        weight_grad,
        grouped_forward,
        grouped_input_grad,
        grouped_weight_grad,
    };

    Kind kind = Kind::forward;
    /// A weight of experts, its gradient or bias [P, E, ..] has the rows of all matrices here.
    MatrixLayout first;   ///< x; for gradients dy. FP8: its rows, for weight_grad its columns
    MatrixLayout second;  ///< weight; for weight_grad x. FP8: its rows, for gradients its columns
    MatrixLayout extra;   ///< bias, or gelu_input or swiglu_input; for weight_grad dbias
    MatrixLayout result;  ///< y, dx, dweight
    MatrixLayout gelu;    ///< gelu(y)
    MatrixLayout swiglu;  ///< swiglu(y); for input_grad du
    std::int64_t accumulate = 0;  ///< adds to the result
    std::int64_t in_blocks = 0;   ///< FP8 with scales for blocks
    std::int64_t experts = 0;     ///< E and P of the grouped kinds, else 0
    std::int64_t parts = 0;
    std::int64_t expected = 0;  ///< rows of all experts, as in the op

    LinearOp() = default;
    explicit LinearOp(const LinearForward& args);
    explicit LinearOp(const LinearInputGrad& args);
    explicit LinearOp(const LinearWeightGrad& args);
    explicit LinearOp(const GroupedForward& args);
    explicit LinearOp(const GroupedInputGrad& args);
    explicit LinearOp(const GroupedWeightGrad& args);
    auto operator<=>(const LinearOp&) const = default;
};

using LinearOps = std::set<LinearOp>;

}  // namespace gptrain
