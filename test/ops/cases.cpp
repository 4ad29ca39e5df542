#include "cases.h"

namespace gptrain {

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
