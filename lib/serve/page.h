// The page at "/": talk to the model from a browser. It is one file and loads nothing else.
#pragma once

#include <string_view>

namespace gptrain {

/// page.html; CMake writes the definition.
extern const std::string_view chat_page;

}  // namespace gptrain
