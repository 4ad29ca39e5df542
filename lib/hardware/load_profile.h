// Reads hardware profiles.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hardware/profile.h"

namespace gptrain {

/// Parses a profile and applies its correction. Every mistake is an Error (usage):
/// `source:line:column: key: ...`.
HardwareProfile parse_profile(std::string_view yaml, std::string_view source);

/// The names of the profiles in configs/hardware, which are part of the program.
std::vector<std::string_view> profile_names();

/// Reads one of those, or a file.
HardwareProfile load_profile(const std::string& name_or_file);

/// The text of one of those with another correction, below the comment `origin`. Without its other
/// comments if its keys do not begin lines.
std::string corrected_profile(const std::string& name_or_file, double correction,
                              const std::string& origin);

}  // namespace gptrain
