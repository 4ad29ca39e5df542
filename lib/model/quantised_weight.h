// Weights that are kept in int8 (Int8Matrix) or NF4 (Nf4Matrix), as linear layers read them.
#pragma once

#include "model/context.h"
#include "model/parameters.h"

namespace gptrain {

/// The weight [O, I] in the compute dtype: widened in workspace memory if only its quantised form
/// is kept. Empty in FP8.
Tensor whole_weight(const ModelContext& context, const GroupTensors& weight);

/// The matrices [P, E, O, I] of experts in the compute dtype. Of a quantised form only those of
/// experts that have some of the `rows` rows are widened; nothing reads the others.
Tensor weight_of_experts(const ModelContext& context, const GroupTensors& weight,
                         const Tensor& offsets, std::int64_t rows);

/// The factor of a forward of `rows` rows: whole_weight, or an empty tensor if the rows are so
/// few that reading the quantised form (multiply_few) is faster.
Tensor forward_weight(const ModelContext& context, const GroupTensors& weight, std::int64_t rows);

/// y [T, O] = x weight^T + bias, which may be empty, from the quantised form, for at most few_rows
/// rows.
void multiply_few(Backend& backend, const GroupTensors& weight, const Tensor& x, const Tensor& bias,
                  const Tensor& y);

}  // namespace gptrain
