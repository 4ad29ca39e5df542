// The run spec as JSON, for programs that read a run's outputs.
#pragma once

#include "base/json.h"
#include "spec/run_spec.h"

namespace gptrain {

/// The keys of `to_yaml` as JSON. A section is an object; an open key has its word ("auto",
/// "none").
Json to_json(const RunSpec& spec);

}  // namespace gptrain
