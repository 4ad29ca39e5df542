// The output of --version.
#pragma once

#include <string>

namespace gptrain {

std::string version_text();

}  // namespace gptrain
