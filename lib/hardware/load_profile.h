// Reads hardware profiles.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hardware/profile.h"

namespace gptrain {

/// Parses a profile and applies its correction. Efficiencies and times of ops that it leaves out
/// get cautious values, which `assumed` lists, unless it has measured ops instead. Every mistake is
/// an Error (usage): `source:line:column: key: ...`.
HardwareProfile parse_profile(std::string_view yaml, std::string_view source);

/// The names of the profiles in configs/hardware, which are part of the program.
std::vector<std::string_view> profile_names();

/// The profile that a word means: its name, or what stands before a dash in it, in capitals or not
/// ("H100" is h100-sxm, "A100" a100-80gb; "rtx" means none), or the number of a GeForce RTX card
/// ("4090"). Empty if it means none, or if a file has this name.
std::string_view profile_meant(const std::string& word);

/// The names of the profiles of the program by the kind of their device, without `except`: "GPUs
/// a100-80gb, b200; CPUs cpu".
std::string profiles_by_kind(std::string_view except = "");

/// Reads such a profile, or a file.
HardwareProfile load_profile(const std::string& name_or_file);

/// The text of such a profile with another correction, below the comment `origin`. Without its
/// other comments if its keys do not begin lines. The program's profile for CPUs gets the cores and
/// the memory of `used`, for which the correction was found.
std::string corrected_profile(const std::string& name_or_file, double correction,
                              const std::string& origin, const HardwareProfile& used = {});

}  // namespace gptrain
