// The cores that this process may run on.
#pragma once

#include <string>

namespace gptrain {

/// "0110...": a digit for each core, 1 for those allowed.
std::string allowed_cores();

}  // namespace gptrain
