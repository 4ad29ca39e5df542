// w[o, i] = scale[o, i / 64] q[o, i]: weights that are kept in int8, as linear layers read them.
#pragma once

#include "model/context.h"
#include "model/parameters.h"

namespace gptrain {

/// The weight [O, I] in the compute dtype: widened in workspace memory if it is kept in int8 only.
/// Empty in FP8.
Tensor whole_weight(const ModelContext& context, const GroupTensors& weight);

/// The factor of a forward of `rows` rows: whole_weight, or an empty tensor if the rows are so
/// few that reading the int8 form (Int8LinearForward) is faster.
Tensor forward_weight(const ModelContext& context, const GroupTensors& weight, std::int64_t rows);

}  // namespace gptrain
