// The run spec for programs that read a run's outputs.
#pragma once

#include "base/json.h"
#include "spec/run_spec.h"

namespace gptrain {

/// The keys of `to_yaml` as JSON: a section is an object, a key left open has its word.
Json to_json(const RunSpec& spec);

}  // namespace gptrain
