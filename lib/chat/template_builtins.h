// The filters, tests, methods and functions that chat templates use. Each is what it is in Jinja
// and Python.
#pragma once

#include <string>
#include <vector>

#include "chat/template_value.h"

namespace gptrain {

struct TemplateArguments {
    std::vector<TemplateValue> values;
    std::vector<std::string> keywords;  ///< of each, empty without one
};

// An unknown name, and arguments that it does not take, are Errors (bad_input) that name it.

/// input | name(arguments)
TemplateValue apply_filter(TemplateRun& run, const std::string& name, const TemplateValue& input,
                           const TemplateArguments& arguments);
/// value is name(arguments)
bool apply_test(TemplateRun& run, const std::string& name, const TemplateValue& value,
                const TemplateArguments& arguments);
/// object.name(arguments)
TemplateValue call_method(TemplateRun& run, const std::string& name, const TemplateValue& object,
                          const TemplateArguments& arguments);
/// name(arguments)
TemplateValue call_function(TemplateRun& run, const std::string& name,
                            const TemplateArguments& arguments);

}  // namespace gptrain
