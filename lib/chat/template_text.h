// Texts of template values: as a template prints them, and as JSON.
#pragma once

#include <string>

#include "chat/template_value.h"

namespace gptrain {

/// The text that a template prints for the value, which is Python's str(). Error in strict runs for
/// undefined values, and for namespaces and functions.
std::string printed(TemplateRun& run, const TemplateValue& value);

/// Options of Python's json.dumps.
struct JsonStyle {
    bool ascii = false;     ///< escape all other characters
    bool sorted = false;    ///< keys in the order of their characters
    bool indented = false;  ///< each element on a line
    std::string indent{};   ///< of a level
    std::string between = ", ";
    std::string after_key = ": ";
};

/// The value as json.dumps writes it. Error for what JSON does not have.
std::string json_of(TemplateRun& run, const TemplateValue& value, const JsonStyle& style = {});

}  // namespace gptrain
