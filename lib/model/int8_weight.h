// w[o, i] = scale[o, i / 64] q[o, i]: weights that are kept in int8, as linear layers read them.
#pragma once

#include "model/context.h"
#include "model/parameters.h"

namespace gptrain {

/// The weight [O, I] in the compute dtype: widened in workspace memory if it is kept in int8 only.
/// Empty in FP8.
Tensor whole_weight(const ModelContext& context, const GroupTensors& weight);

/// The matrices [P, E, O, I] of experts in the compute dtype. If they are kept in int8, only those
/// of experts that have some of the `rows` rows are widened; nothing reads the others.
Tensor weight_of_experts(const ModelContext& context, const GroupTensors& weight,
                         const Tensor& offsets, std::int64_t rows);

/// The factor of a forward of `rows` rows: whole_weight, or an empty tensor if the rows are so
/// few that reading the int8 form (Int8LinearForward) is faster.
Tensor forward_weight(const ModelContext& context, const GroupTensors& weight, std::int64_t rows);

}  // namespace gptrain
