// page.css and page.js as text in the program, which needs no files besides itself.
#pragma once

#include <string_view>

namespace gptrain {

/// CMake writes the definitions.
extern const std::string_view page_css;
extern const std::string_view page_js;

}  // namespace gptrain
