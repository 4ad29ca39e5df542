// Cases of an input gradient through SwiGLU.
#pragma once

#include "op_case.h"

namespace gptrain::swiglu_case {

struct Results {
    Operand dx;  ///< cleared, because the op may leave anything there
    Operand du;
};

/// Makes the case run LinearInputGrad for inputs of this shape [T, I].
inline Results run_input_grad(OpCase& op, Operand dy, Operand weight, Operand u, DType dtype,
                              const Shape& inputs) {
    const Operand dx = op.output(dtype, inputs);
    const Operand du = op.output(dtype, {inputs[0], 2 * inputs[1]});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearInputGrad{.dy = at[dy],
                                    .weight = at[weight],
                                    .gelu_input = {},
                                    .dx = at[dx],
                                    .swiglu_input = at[u],
                                    .du = at[du]});
        backend.run(Fill{.x = at[dx]});
    };
    return {dx, du};
}

}  // namespace gptrain::swiglu_case
