// The tasks of configs/tasks as text in the program, which needs no files besides itself.
#pragma once

#include <span>
#include <string_view>

namespace gptrain {

struct BuiltInTask {
    std::string_view name;
    std::string_view yaml;
};

/// In the order of their names. CMake writes the definition.
std::span<const BuiltInTask> built_in_tasks();

}  // namespace gptrain
