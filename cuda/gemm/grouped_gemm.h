// Describes the GEMMs of a grouped linear layer (formulas: backend/expert_ops.h).
#pragma once

#include "tensor/tensor.h"

namespace gptrain::cuda {

enum class GroupedKind {
    forward,      ///< c = a b^T + bias
    input_grad,   ///< c = a b
    weight_grad,  ///< c (+)= a^T b
};

/// For E experts of P matrices [O, I] each, whose rows the device finds in `offsets`; R rows at
/// most.
struct GroupedGemm {
    GroupedKind kind = GroupedKind::forward;
    Tensor a;                   ///< x [R, I]; for gradients dy [R, P O]
    Tensor b;                   ///< weight [P, E, O, I]; for weight_grad x [R, I]
    Tensor c;                   ///< y [R, P O]; dx [R, I]; dweight fp32 [P, E, O, I]
    Tensor offsets;             ///< i32 [E + 1]
    Tensor bias = {};           ///< forward: [P, E, O] or empty
    bool accumulate = false;    ///< weight_grad
    std::int64_t expected = 0;  ///< rows that experts have if loads are equal; 0: all

    const Tensor& weight() const { return kind == GroupedKind::weight_grad ? c : b; }
    std::int64_t rows() const { return a.size(0); }
    std::int64_t parts() const { return weight().size(0); }
    std::int64_t experts() const { return weight().size(1); }
    std::int64_t outputs() const { return weight().size(2); }
    std::int64_t inputs() const { return weight().size(3); }
};

}  // namespace gptrain::cuda
