#include "cases.h"

namespace gptrain {

Values token_weights() {
    return [](std::int64_t i, PhiloxKey) { return is_masked(i) ? 0.0 : i % 2 == 0 ? 1.0 : 0.5; };
}

reference::Mask use_dropout(OpCase& op, const Dropout& dropout) {
    op.state.step = 7;
    op.first_sequences = {5, 11, 17};
    op.slot = 1;
    return {dropout, 7, 11};
}

Dropout dropout_of(const reference::Mask& mask, const Tensors& at) {
    Dropout dropout = mask.dropout;
    dropout.step = at.step;
    return dropout;
}

}  // namespace gptrain
