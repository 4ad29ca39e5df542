// The orthogonal factor of a matrix, approximately, by GEMMs alone (Jordan 2024,
// https://kellerjordan.github.io/posts/muon).
#pragma once

#include "backend/backend.h"

namespace gptrain {

/// Moves the singular values of x (at most 1) to about 1 and keeps its singular vectors. For a wide
/// X (m <= n), five times:
///
///   A = X X^T; X = a X + (b A + c A A) X       (a, b, c) = (3.4445, -4.7750, 2.0315)
///
/// A tall X is treated as its transpose. x [m, n] is contiguous, in the compute dtype, to which all
/// GEMMs round. Takes workspace memory.
void orthogonalise(Backend& backend, Arena& workspace, const Tensor& x);

}  // namespace gptrain
