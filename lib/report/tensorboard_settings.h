// The settings of a run as TensorBoard's HPARAMS tab reads them.
#pragma once

#include <string>

#include "base/json.h"

namespace gptrain {

/// A `Summary.Value` message of TensorBoard's plugin "hparams" (its plugin_data.proto): that a
/// session with these settings started. Settings inside an object get its name and a point before
/// theirs ("model.num_layers"); a list becomes text. `start`: Unix seconds.
std::string settings_value(const Json& settings, double start);

}  // namespace gptrain
