// A measured hardware profile as the text of its file.
#pragma once

#include <string>

#include "hardware/profile.h"

namespace gptrain {

/// YAML that parse_profile reads back, with a first comment line of `origin`.
std::string profile_text(const HardwareProfile& profile, const std::string& origin);

}  // namespace gptrain
