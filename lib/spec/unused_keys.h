// Keys of a run spec that do nothing next to the others.
#pragma once

#include <string>
#include <vector>

#include "spec/run_spec.h"

namespace gptrain {

/// A warning for each key that is set although another key makes it do nothing, such as min_lr with
/// a constant learning rate. They are no Errors, because checkpoints contain such specs.
std::vector<std::string> unused_keys(const RunSpec& spec);

}  // namespace gptrain
