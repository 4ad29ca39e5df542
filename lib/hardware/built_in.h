// The profiles of configs/hardware as text in the program, which needs no files besides itself.
#pragma once

#include <span>
#include <string_view>

namespace gptrain {

struct BuiltInProfile {
    std::string_view name;
    std::string_view yaml;
};

/// In the order of their names. CMake writes the definition.
std::span<const BuiltInProfile> built_in_profiles();

}  // namespace gptrain
