// Checks of the keys that decide what a block computes. Each mistake is an Error (usage) that names
// the keys, their values and the remedy.
#pragma once

#include "spec/run_plan.h"

namespace gptrain {

/// The keys of rotations and of the window.
void check_positions(const RunSpec& spec);
/// The share of a head that is rotated.
void check_rotated_dims(const ModelShape& shape);
/// Norms and the residual stream.
void check_block(const ModelSpec& model);

}  // namespace gptrain
