#include "model/int8_weight.h"

namespace gptrain {

static_assert(Int8Matrix::block == int8_block, "int8_warning counts the same blocks");

Tensor whole_weight(const ModelContext& context, const GroupTensors& weight) {
    if (weight.int8.empty()) return weight.weight;
    const Tensor widened = context.temporary(weight.int8.values.shape());
    context.backend.run(FromInt8{.x = weight.int8, .out = widened});
    return widened;
}

Tensor weight_of_experts(const ModelContext& context, const GroupTensors& weight,
                         const Tensor& offsets, std::int64_t rows) {
    if (weight.int8.empty()) return weight.weight;
    const Tensor widened = context.temporary(weight.int8.values.shape());
    context.backend.run(
        GroupedFromInt8{.x = weight.int8, .offsets = offsets, .out = widened, .rows = rows});
    return widened;
}

Tensor forward_weight(const ModelContext& context, const GroupTensors& weight, std::int64_t rows) {
    if (!weight.int8.empty() && rows <= few_rows) return {};
    return whole_weight(context, weight);
}

}  // namespace gptrain
