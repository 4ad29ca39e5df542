// The settings of a run for TensorBoard's HPARAMS tab.
#pragma once

#include <string>

#include "base/json.h"

namespace gptrain {

/// A `Summary.Value` message of TensorBoard's plugin "hparams" (its plugin_data.proto), which
/// starts a session with these settings. Nested settings are prefixed with their object's name and
/// a dot ("model.num_layers"); lists become text. `start`: Unix seconds.
std::string settings_value(const Json& settings, double start);

}  // namespace gptrain
