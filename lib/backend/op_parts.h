// The ops that an op with SwiGLU stands for, where no kernel does both.
#pragma once

#include "backend/model_ops.h"

namespace gptrain {

/// Calls f with each op in turn: most ops are one part.
void each_part(const auto& op, const auto& f) {
    f(op);
}

void each_part(const LinearForward& op, const auto& f) {
    LinearForward product = op;
    product.swiglu = {};
    f(product);
    if (op.swiglu.empty()) return;
    f(ActivationForward{.activation = Activation::swiglu, .u = op.y, .y = op.swiglu});
}

void each_part(const LinearInputGrad& op, const auto& f) {
    LinearInputGrad product = op;
    product.swiglu_input = product.du = {};
    f(product);
    if (op.du.empty()) return;
    f(ActivationBackward{
        .activation = Activation::swiglu, .u = op.swiglu_input, .dy = op.dx, .du = op.du});
}

}  // namespace gptrain
