// The cores that this process may run on.
#pragma once

#include <string>

namespace gptrain {

/// "0110...": a digit for each core, 1 for those allowed.
std::string allowed_cores();

/// From now on this thread, and every thread that it creates, may run on the cores with a 1. A set
/// that the system refuses is an Error (io).
void allow_cores(const std::string& cores);

}  // namespace gptrain
