#include "chat/template_builtins.h"

#include <algorithm>
#include <utility>

#include "chat/template_text.h"

namespace gptrain {
namespace {

using Kind = TemplateValue::Kind;

/// Other names of filters and tests.
constexpr std::pair<std::string_view, std::string_view> filter_names[] = {
    {"d", "default"}, {"count", "length"}, {"e", "escape"}};
constexpr std::pair<std::string_view, std::string_view> test_names[] = {
    {"==", "eq"}, {"equalto", "eq"}, {"!=", "ne"},          {"<", "lt"}, {"lessthan", "lt"},
    {"<=", "le"}, {">", "gt"},       {"greaterthan", "gt"}, {">=", "ge"}};

std::string_view true_name(std::span<const std::pair<std::string_view, std::string_view>> names,
                           std::string_view name) {
    const auto found = std::ranges::find(names, name, [](const auto& one) { return one.first; });
    return found == names.end() ? name : found->second;
}

TemplateBound bound_to(const TemplateRun& run, std::string_view what,
                       const TemplateBuiltin& builtin, const TemplateArguments& arguments) {
    TemplateBound bound(builtin.parameters.size(), nullptr);
    for (std::size_t i = 0; i < arguments.values.size(); ++i) {
        const std::string& keyword = arguments.keywords[i];
        std::size_t at = i;
        if (!keyword.empty()) {
            const auto found =
                std::find(builtin.parameters.begin(), builtin.parameters.end(), keyword);
            if (found == builtin.parameters.end()) {
                run.fail("the argument '", keyword, "' of the ", what, " '", builtin.name,
                         "' is not supported");
            }
            at = static_cast<std::size_t>(found - builtin.parameters.begin());
        }
        if (at >= bound.size())
            run.fail("the ", what, " '", builtin.name, "' takes at most ", bound.size(),
                     " arguments");
        bound[at] = &arguments.values[i];
    }
    return bound;
}

const TemplateBuiltin* find_builtin(std::span<const TemplateBuiltin> table, std::string_view name) {
    const auto found = std::ranges::find(table, name, &TemplateBuiltin::name);
    return found == table.end() ? nullptr : &*found;
}

TemplateValue call(TemplateRun& run, std::string_view what, const TemplateBuiltin* builtin,
                   std::string_view name, const TemplateValue& input,
                   const TemplateArguments& arguments) {
    if (builtin == nullptr) run.fail("the ", what, " '", name, "' is not supported in templates");
    return builtin->apply(run, input, bound_to(run, what, *builtin, arguments));
}

void require_keywords(const TemplateRun& run, const std::string& name,
                      const TemplateArguments& arguments) {
    for (std::size_t i = 0; i < arguments.values.size(); ++i)
        if (arguments.keywords[i].empty() || arguments.values[i].is(Kind::space))
            run.fail(name, " takes arguments of the form name=value");
}

/// Python's str.format with {}, {0} and {name}.
TemplateValue formatted(TemplateRun& run, std::string_view form,
                        const TemplateArguments& arguments) {
    const auto argument = [&](std::string_view name, std::size_t& next) {
        const auto index =
            name.empty() ? std::optional(static_cast<std::int64_t>(next++)) : parse_int(name);
        for (std::size_t i = 0; i < arguments.values.size(); ++i) {
            const bool found = index ? arguments.keywords[i].empty() && std::cmp_equal(i, *index)
                                     : arguments.keywords[i] == name;
            if (found) return printed(run, arguments.values[i]);
        }
        run.fail("format has no argument for '{", name, "}'");
    };
    std::string out;
    std::size_t next = 0;
    for (std::size_t at = 0; at < form.size();) {
        const char c = form[at];
        if (c != '{' && c != '}') {
            out += form[at++];
        } else if (at + 1 < form.size() && form[at + 1] == c) {
            out += c;
            at += 2;
        } else {
            const std::size_t end = form.find('}', at);
            const std::string_view name = form.substr(at, end - at).substr(c == '{' ? 1 : 0);
            if (c == '}' || end == form.npos || name.find_first_of("{!:.[") != name.npos)
                run.fail("format supports only {}, {0} and {name}");
            out += argument(name, next);
            at = end + 1;
        }
        run.count_bytes(0);
    }
    run.count_bytes(out.size());
    return string_value(std::move(out));
}

}  // namespace

TemplateValue apply_filter(TemplateRun& run, const std::string& name, const TemplateValue& input,
                           const TemplateArguments& arguments) {
    const std::string_view known = true_name(filter_names, name);
    const TemplateBuiltin* filter = find_builtin(value_filters(), known);
    if (filter == nullptr) filter = find_builtin(element_filters(), known);
    return call(run, "filter", filter, name, input, arguments);
}

bool apply_test(TemplateRun& run, const std::string& name, const TemplateValue& value,
                const TemplateArguments& arguments) {
    const TemplateBuiltin* test = find_builtin(value_tests(), true_name(test_names, name));
    return is_true(call(run, "test", test, name, value, arguments));
}

TemplateValue call_method(TemplateRun& run, const std::string& name, const TemplateValue& object,
                          const TemplateArguments& arguments) {
    if (object.is(Kind::undefined)) run.fail("'", *object.text, "' is undefined");
    const bool string = object.is_string();
    if (string && name == "format") return formatted(run, object.string(), arguments);
    if (!string && !object.is(Kind::dict))
        run.fail("the method '", name, "' of ", kind_name(object), " is not supported");
    const auto table = string ? string_methods() : dict_methods();
    return call(run, "method", find_builtin(table, name), name, object, arguments);
}

TemplateValue call_function(TemplateRun& run, const std::string& name,
                            const TemplateArguments& arguments) {
    if (name != "namespace" && name != "dict")
        return call(run, "function", find_builtin(plain_functions(), name), name, {}, arguments);
    require_keywords(run, name, arguments);
    std::vector<TemplateValue> keys = string_values(arguments.keywords);
    return name == "dict" ? dict_value(run, std::move(keys), arguments.values)
                          : space_value(std::move(keys), arguments.values);
}

bool is_function(std::string_view name) {
    return name == "namespace" || name == "dict" ||
           find_builtin(plain_functions(), name) != nullptr;
}

}  // namespace gptrain
