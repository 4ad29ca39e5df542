// Checks of the spec's objective, for a plan.
#pragma once

#include "spec/run_spec.h"

namespace gptrain {

/// Error (usage) that names the key: with masked language modelling, shares that add up to more
/// than 1, keys of spans without spans, a mask token that is unknown, outside the vocabulary or the
/// end of document, or what keeps a token from seeing the whole sequence. The attention kernels
/// know a first visible key but no last one.
void check_objective(const RunSpec& spec);

}  // namespace gptrain
