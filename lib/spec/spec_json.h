// The run spec as JSON, for programs that read a run's outputs and for messages.
#pragma once

#include <string>

#include "base/json.h"
#include "spec/run_spec.h"

namespace gptrain {

/// The keys of `to_yaml` as JSON. A section is an object; an open key has its word ("auto",
/// "none").
Json to_json(const RunSpec& spec);

/// A value as to_yaml writes it behind its key, on one line.
std::string yaml_line(const Json& value);

/// The keys that change what attention computes but no shape, as in to_json: rope_scaling,
/// sliding_window and full_attention_layers, which is empty without a window.
Json attention_settings(const ModelVariant& model);

}  // namespace gptrain
