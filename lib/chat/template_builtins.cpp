#include "chat/template_builtins.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/utf8.h"
#include "chat/template_functions.h"

namespace gptrain {
namespace {

using Kind = TemplateValue::Kind;
/// The value of each parameter, null if it was not given.
using Bound = std::vector<const TemplateValue*>;

/// A filter, test, method or function, with the names of its parameters.
struct Builtin {
    std::string_view name;
    std::vector<std::string_view> parameters;
    TemplateValue (*apply)(TemplateRun& run, const TemplateValue& input, const Bound& arguments);
};

Bound bound_to(const TemplateRun& run, std::string_view what, const Builtin& builtin,
               const TemplateArguments& arguments) {
    Bound bound(builtin.parameters.size(), nullptr);
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

TemplateValue call(TemplateRun& run, std::string_view what, std::span<const Builtin> table,
                   const std::string& name, const TemplateValue& input,
                   const TemplateArguments& arguments) {
    const auto found = std::ranges::find(table, name, &Builtin::name);
    if (found == table.end()) run.fail("the ", what, " '", name, "' is not supported in templates");
    return found->apply(run, input, bound_to(run, what, *found, arguments));
}

TemplateValue length_of(TemplateRun& run, const TemplateValue& value) {
    if (value.is(Kind::undefined)) return integer_value(0);
    if (value.is_string()) {
        run.count_bytes(value.text->size());
        return integer_value(count_characters(value.string()));
    }
    if (!value.has_items()) run.fail("length of ", kind_name(value));
    return integer_value(std::ssize(value.items->values));
}

TemplateValue joined(TemplateRun& run, const TemplateValue& input, const TemplateValue* between) {
    std::string out;
    bool first = true;
    for (const TemplateValue& value : elements_of(run, input)) {
        if (!first && between != nullptr) out += printed(run, *between);
        first = false;
        const std::string part = printed(run, value);
        run.count_bytes(part.size() +
                        (between != nullptr && between->text ? between->text->size() : 0));
        out += part;
    }
    return string_value(std::move(out));
}

/// The elements whose attribute passes (or fails) the test.
template <bool wanted>
TemplateValue selected(TemplateRun& run, const TemplateValue& input, const Bound& arguments) {
    const auto [attribute, test, value] = std::array{arguments[0], arguments[1], arguments[2]};
    const std::string name(string_of(run, attribute, "selectattr"));
    std::vector<TemplateValue> chosen;
    for (const TemplateValue& element : elements_of(run, input)) {
        const TemplateValue member = member_of(run, element, string_value(name));
        TemplateArguments given;
        if (value != nullptr) given = {{*value}, {""}};
        const bool passes =
            test == nullptr
                ? is_true(member)
                : apply_test(run, std::string(string_of(run, test, "selectattr")), member, given);
        if (passes == wanted) chosen.push_back(element);
    }
    return list_value(run, std::move(chosen));
}

/// An attribute of each element.
TemplateValue mapped(TemplateRun& run, const TemplateValue& input, const Bound& arguments) {
    if (arguments[0] != nullptr) run.fail("the filter 'map' with another filter is not supported");
    const TemplateValue name = string_value(std::string(string_of(run, arguments[1], "map")));
    std::vector<TemplateValue> members;
    for (const TemplateValue& element : elements_of(run, input))
        members.push_back(member_of(run, element, name));
    return list_value(run, std::move(members));
}

template <bool first>
TemplateValue first_or_last(TemplateRun& run, const TemplateValue& input) {
    const std::vector<TemplateValue> elements = elements_of(run, input);
    if (elements.empty()) return undefined_value(first ? "the first element" : "the last element");
    return first ? elements.front() : elements.back();
}

TemplateValue value_or_default(TemplateRun&, const TemplateValue& input, const Bound& arguments) {
    const bool falsy = arguments[1] != nullptr && is_true(*arguments[1]) && !is_true(input);
    if (!input.is(Kind::undefined) && !falsy) return input;
    return arguments[0] != nullptr ? *arguments[0] : string_value("");
}

template <bool upper>
TemplateValue in_case(TemplateRun& run, const TemplateValue& input) {
    return with_case(run, input, upper);
}

/// A filter without arguments.
template <TemplateValue (*f)(TemplateRun&, const TemplateValue&)>
TemplateValue plain(TemplateRun& run, const TemplateValue& input, const Bound&) {
    return f(run, input);
}

/// Filters of a text or of any value.
std::vector<Builtin> value_filters() {
    using Value = TemplateValue;
    return {
        {"trim",
         {"chars"},
         [](TemplateRun& run, const Value& input, const Bound& arguments) {
             return stripped_value(run, printed(run, input), arguments[0], StripSides::both);
         }},
        {"length", {}, plain<length_of>},
        {"count", {}, plain<length_of>},
        {"tojson",
         {},
         [](TemplateRun& run, const Value& input, const Bound&) {
             return string_value(json_of(run, input));
         }},
        {"upper", {}, plain<in_case<true>>},
        {"lower", {}, plain<in_case<false>>},
        {"capitalize", {}, plain<capitalized_value>},
        {"default", {"default_value", "boolean"}, value_or_default},
        {"string",
         {},
         [](TemplateRun& run, const Value& input, const Bound&) {
             return counted_string(run, printed(run, input));
         }},
        {"safe", {}, [](TemplateRun&, const Value& input, const Bound&) { return input; }},
        {"replace",
         {"old", "new"},
         [](TemplateRun& run, const Value& input, const Bound& arguments) {
             return replaced_value(run, printed(run, input), arguments[0], arguments[1]);
         }},
    };
}

/// Filters of the elements of a list, a dict or a text.
std::vector<Builtin> element_filters() {
    using Value = TemplateValue;
    return {
        {"first", {}, plain<first_or_last<true>>},
        {"last", {}, plain<first_or_last<false>>},
        {"join",
         {"d"},
         [](TemplateRun& run, const Value& input, const Bound& arguments) {
             return joined(run, input, arguments[0]);
         }},
        {"list",
         {},
         [](TemplateRun& run, const Value& input, const Bound&) {
             return list_value(run, elements_of(run, input));
         }},
        {"items", {}, plain<items_of>},
        {"map", {"filter", "attribute"}, mapped},
        {"selectattr", {"attribute", "test", "value"}, selected<true>},
        {"rejectattr", {"attribute", "test", "value"}, selected<false>},
    };
}

const std::vector<Builtin>& filters() {
    static const std::vector<Builtin> table = [] {
        std::vector<Builtin> all = value_filters();
        for (Builtin& filter : element_filters())
            all.push_back(std::move(filter));
        return all;
    }();
    return table;
}

/// A test that depends only on the value's kind.
template <Kind... kinds>
TemplateValue is_one_of(TemplateRun&, const TemplateValue& value, const Bound&) {
    return boolean_value((value.is(kinds) || ...));
}

template <bool wanted>
TemplateValue is_boolean(TemplateRun&, const TemplateValue& value, const Bound&) {
    return boolean_value(value.is(Kind::boolean) && (value.number != 0) == wanted);
}

TemplateValue is_equal(TemplateRun& run, const TemplateValue& value, const Bound& arguments) {
    if (arguments[0] == nullptr) run.fail("a test for equality needs an argument");
    return boolean_value(are_equal(run, value, *arguments[0]));
}

const std::vector<Builtin>& tests() {
    static const std::vector<Builtin> table = {
        {"defined",
         {},
         [](TemplateRun&, const TemplateValue& value, const Bound&) {
             return boolean_value(!value.is(Kind::undefined));
         }},
        {"undefined", {}, is_one_of<Kind::undefined>},
        {"none", {}, is_one_of<Kind::none>},
        {"string", {}, is_one_of<Kind::string>},
        {"mapping", {}, is_one_of<Kind::dict>},
        {"sequence", {}, is_one_of<Kind::string, Kind::list, Kind::dict>},
        {"iterable", {}, is_one_of<Kind::string, Kind::list, Kind::dict, Kind::undefined>},
        {"number", {}, is_one_of<Kind::integer, Kind::boolean>},
        {"integer", {}, is_one_of<Kind::integer>},
        {"boolean", {}, is_one_of<Kind::boolean>},
        {"true", {}, is_boolean<true>},
        {"false", {}, is_boolean<false>},
        {"equalto", {"other"}, is_equal},
        {"eq", {"other"}, is_equal},
        {"in",
         {"sequence"},
         [](TemplateRun& run, const TemplateValue& value, const Bound& arguments) {
             if (arguments[0] == nullptr) run.fail("the test 'in' needs an argument");
             return boolean_value(contains(run, *arguments[0], value));
         }},
    };
    return table;
}

const std::vector<Builtin>& string_methods() {
    using Value = TemplateValue;
    static const std::vector<Builtin> table = {
        {"strip",
         {"chars"},
         [](TemplateRun& run, const Value& object, const Bound& arguments) {
             return stripped_value(run, object.string(), arguments[0], StripSides::both);
         }},
        {"lstrip",
         {"chars"},
         [](TemplateRun& run, const Value& object, const Bound& arguments) {
             return stripped_value(run, object.string(), arguments[0], StripSides::left);
         }},
        {"rstrip",
         {"chars"},
         [](TemplateRun& run, const Value& object, const Bound& arguments) {
             return stripped_value(run, object.string(), arguments[0], StripSides::right);
         }},
        {"split",
         {"sep", "maxsplit"},
         [](TemplateRun& run, const Value& object, const Bound& arguments) {
             return split_value(run, object.string(), arguments[0], arguments[1]);
         }},
        {"startswith",
         {"prefix"},
         [](TemplateRun& run, const Value& object, const Bound& arguments) {
             return boolean_value(
                 object.string().starts_with(string_of(run, arguments[0], "startswith")));
         }},
        {"endswith",
         {"suffix"},
         [](TemplateRun& run, const Value& object, const Bound& arguments) {
             return boolean_value(
                 object.string().ends_with(string_of(run, arguments[0], "endswith")));
         }},
        {"replace",
         {"old", "new"},
         [](TemplateRun& run, const Value& object, const Bound& arguments) {
             return replaced_value(run, object.string(), arguments[0], arguments[1]);
         }},
        {"upper",
         {},
         [](TemplateRun& run, const Value& object, const Bound&) {
             return with_case(run, object, true);
         }},
        {"lower",
         {},
         [](TemplateRun& run, const Value& object, const Bound&) {
             return with_case(run, object, false);
         }},
        {"capitalize",
         {},
         [](TemplateRun& run, const Value& object, const Bound&) {
             return capitalized_value(run, object);
         }},
    };
    return table;
}

const std::vector<Builtin>& dict_methods() {
    using Value = TemplateValue;
    static const std::vector<Builtin> table = {
        {"items",
         {},
         [](TemplateRun& run, const Value& object, const Bound&) { return items_of(run, object); }},
        {"keys",
         {},
         [](TemplateRun& run, const Value& object, const Bound&) {
             return list_value(run, elements_of(run, object));
         }},
        {"values",
         {},
         [](TemplateRun& run, const Value& object, const Bound&) {
             run.count(std::ssize(object.items->values));
             return list_value(run, object.items->values);
         }},
        {"get",
         {"key", "default"},
         [](TemplateRun& run, const Value& object, const Bound& arguments) {
             const Value* found = object.items->find(string_of(run, arguments[0], "get"));
             if (found != nullptr) return *found;
             return arguments[1] != nullptr ? *arguments[1] : none_value();
         }},
    };
    return table;
}

TemplateValue numbers_below(TemplateRun& run, const Bound& arguments) {
    for (const TemplateValue* argument : arguments)
        if (argument != nullptr && !argument->is(Kind::integer)) run.fail("range needs integers");
    if (arguments[0] == nullptr) run.fail("range needs an integer");
    const std::int64_t begin = arguments[1] == nullptr ? 0 : arguments[0]->number;
    const std::int64_t end = arguments[1] == nullptr ? arguments[0]->number : arguments[1]->number;
    std::vector<TemplateValue> values;
    for (std::int64_t i = begin; i < end; ++i) {
        run.count(16);
        values.push_back(integer_value(i));
    }
    return list_value(run, std::move(values));
}

const std::vector<Builtin>& functions() {
    using Value = TemplateValue;
    static const std::vector<Builtin> table = {
        {"raise_exception",
         {"message"},
         [](TemplateRun& run, const Value&, const Bound& arguments) -> Value {
             const Value reason = arguments[0] == nullptr ? Value() : *arguments[0];
             const std::string why = reason.has_items()           ? json_of(run, reason)
                                     : reason.is(Kind::undefined) ? ""
                                                                  : printed(run, reason);
             run.fail("the template refuses the conversation",
                      why.empty() ? " and gives no reason" : ": " + why);
         }},
        {"range",
         {"start", "stop"},
         [](TemplateRun& run, const Value&, const Bound& arguments) {
             return numbers_below(run, arguments);
         }},
    };
    return table;
}

}  // namespace

TemplateValue apply_filter(TemplateRun& run, const std::string& name, const TemplateValue& input,
                           const TemplateArguments& arguments) {
    return call(run, "filter", filters(), name == "d" ? "default" : name, input, arguments);
}

bool apply_test(TemplateRun& run, const std::string& name, const TemplateValue& value,
                const TemplateArguments& arguments) {
    return is_true(call(run, "test", tests(), name == "==" ? "eq" : name, value, arguments));
}

TemplateValue call_method(TemplateRun& run, const std::string& name, const TemplateValue& object,
                          const TemplateArguments& arguments) {
    if (object.is_string()) return call(run, "method", string_methods(), name, object, arguments);
    if (object.is(Kind::dict)) return call(run, "method", dict_methods(), name, object, arguments);
    if (object.is(Kind::undefined)) run.fail("'", *object.text, "' is undefined");
    run.fail("the method '", name, "' of ", kind_name(object), " is not supported");
}

TemplateValue call_function(TemplateRun& run, const std::string& name,
                            const TemplateArguments& arguments) {
    if (name != "namespace") return call(run, "function", functions(), name, {}, arguments);
    for (std::size_t i = 0; i < arguments.values.size(); ++i) {
        if (arguments.keywords[i].empty() || arguments.values[i].is(Kind::space))
            run.fail("namespace takes arguments of the form name=value");
    }
    return space_value(arguments.keywords, arguments.values);
}

}  // namespace gptrain
