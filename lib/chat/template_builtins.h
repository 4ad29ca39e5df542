// The filters, tests, methods and functions that chat templates use. Each is what it is in Jinja
// and Python.
#pragma once

#include <span>
#include <string>
#include <string_view>
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
/// True if there is a function of that name.
bool is_function(std::string_view name);

/// The value of each parameter, null if it was not given.
using TemplateBound = std::vector<const TemplateValue*>;

/// A filter, test, method or function, with the names of its parameters.
struct TemplateBuiltin {
    std::string_view name;
    std::vector<std::string_view> parameters;
    TemplateValue (*apply)(TemplateRun& run, const TemplateValue& input,
                           const TemplateBound& arguments);
};

/// The tables of all of them: filters of a value and of its elements, ...
std::span<const TemplateBuiltin> value_filters();
std::span<const TemplateBuiltin> element_filters();
std::span<const TemplateBuiltin> value_tests();
std::span<const TemplateBuiltin> string_methods();
std::span<const TemplateBuiltin> dict_methods();
std::span<const TemplateBuiltin> plain_functions();

}  // namespace gptrain
