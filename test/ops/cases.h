// The list of op cases, by family. A new op adds its rows to one of them.
#pragma once

#include <vector>

#include "op_case.h"
#include "reference.h"

namespace gptrain {

std::vector<OpCase> linear_cases();
std::vector<OpCase> fp8_cases();
std::vector<OpCase> fp8_block_cases();
std::vector<OpCase> int8_cases();
std::vector<OpCase> nf4_cases();
std::vector<OpCase> norm_cases();
std::vector<OpCase> head_norm_cases();
std::vector<OpCase> row_norm_cases();
std::vector<OpCase> activation_cases();
std::vector<OpCase> embedding_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> merged_attention_cases();  ///< among these
std::vector<OpCase> loss_cases();
std::vector<OpCase> router_cases();
std::vector<OpCase> expert_cases();
std::vector<OpCase> grouped_linear_cases();
std::vector<OpCase> optimizer_cases();
std::vector<OpCase> muon_cases();
std::vector<OpCase> small_moment_cases();

/// Operands of a matrix in FP8 with scales for blocks of 1 x 128 that an op writes; none unless
/// wanted.
struct Rows8 {
    Rows8() = default;
    Rows8(OpCase& op, const Shape& shape)
        : rows(op.output(DType::f8e4m3, shape)),
          scales(op.output(DType::f32, fp8_row_scales(shape[0], shape[1]))) {}
    Fp8Matrix matrix(const Tensors& at) const {
        return {.rowwise = at[rows], .columnwise = {}, .scale = at[scales]};
    }
    /// As ToFp8Rows makes it from x as stored: this matrix, or its rows as heads.
    void reference(Arrays& at, Operand x) const {
        if (rows == none) return;
        Array matrix(at[rows].shape());
        matrix.values() = at.result(x).values();
        reference::to_fp8_blocks(matrix, 1, at[rows], at[scales], false);
    }
    Operand rows = none;
    Operand scales = none;
};

/// Every third token has weight 0.
constexpr bool is_masked(std::int64_t token) {
    return token % 3 == 1;
}
/// The others' weights are 1 and 0.5.
Values token_weights();

constexpr DType compute_dtypes[] = {DType::f32, DType::bf16, DType::f16};

/// Gives the case a step and slots other than the first, and returns this dropout's mask for them.
reference::Mask use_dropout(OpCase& op, const Dropout& dropout);
/// The dropout argument of the op.
Dropout dropout_of(const reference::Mask& mask, const Tensors& at);

}  // namespace gptrain
