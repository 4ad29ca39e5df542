// The classes of transformers that compute what a model with experts does.
#pragma once

#include "interop/hf_class.h"
#include "spec/run_plan.h"

namespace gptrain {

/// hf_class_of for a model with experts.
HfClass hf_class_with_experts(const ModelShape& model);

}  // namespace gptrain
