// Tests: value is name(argument).
#include "chat/template_builtins.h"
#include "chat/template_functions.h"

namespace gptrain {
namespace {

using Kind = TemplateValue::Kind;
using Form = TemplateItems::Form;
using Value = TemplateValue;
using Bound = TemplateBound;

/// A test that depends only on the value's kind.
template <Kind... kinds>
Value is_one_of(TemplateRun&, const Value& value, const Bound&) {
    return boolean_value((value.is(kinds) || ...));
}

template <bool wanted>
Value is_boolean(TemplateRun&, const Value& value, const Bound&) {
    return boolean_value(value.is(Kind::boolean) && (value.number != 0) == wanted);
}

Value is_sequence(TemplateRun&, const Value& value, const Bound&) {
    const bool lazy = value.is(Kind::list) && value.items->form == Form::lazy;
    return boolean_value(value.is_string() || value.is(Kind::dict) || value.is(Kind::undefined) ||
                         (value.is(Kind::list) && !lazy));
}

const Value& other(const TemplateRun& run, const Bound& arguments) {
    if (arguments[0] == nullptr) run.fail("a test that compares needs an argument");
    return *arguments[0];
}

template <bool wanted>
Value is_equal(TemplateRun& run, const Value& value, const Bound& arguments) {
    return boolean_value(are_equal(run, value, other(run, arguments)) == wanted);
}

/// Below 0: less; above 0: greater; `equal` passes, too.
template <int sign, bool equal>
Value is_ordered(TemplateRun& run, const Value& value, const Bound& arguments) {
    const int order = order_of(run, value, other(run, arguments));
    return boolean_value(sign * order > 0 || (equal && order == 0));
}

/// Python's `is` of the values that exist once.
Value is_same(TemplateRun& run, const Value& value, const Bound& arguments) {
    const Value& one = other(run, arguments);
    if (!one.is(Kind::boolean) && !one.is(Kind::none))
        run.fail("the test 'sameas' supports only true, false and none");
    return boolean_value(value.kind == one.kind && value.number == one.number);
}

template <std::int64_t rest>
Value has_parity(TemplateRun& run, const Value& value, const Bound&) {
    return boolean_value((integer_of(run, &value, 0, "the test of a parity") & 1) == rest);
}

Value is_divisible(TemplateRun& run, const Value& value, const Bound& arguments) {
    const std::int64_t by = integer_of(run, &other(run, arguments), 0, "divisibleby");
    const std::int64_t number = integer_of(run, &value, 0, "divisibleby");
    if (by == 0) run.fail("a division by 0");
    return boolean_value(by == -1 || number % by == 0);
}

}  // namespace

std::span<const TemplateBuiltin> value_tests() {
    static const std::vector<TemplateBuiltin> table = {
        {"defined",
         {},
         [](TemplateRun&, const Value& value, const Bound&) {
             return boolean_value(!value.is(Kind::undefined));
         }},
        {"undefined", {}, is_one_of<Kind::undefined>},
        {"none", {}, is_one_of<Kind::none>},
        {"string", {}, is_one_of<Kind::string>},
        {"mapping", {}, is_one_of<Kind::dict>},
        {"sequence", {}, is_sequence},
        {"iterable", {}, is_one_of<Kind::string, Kind::list, Kind::dict, Kind::undefined>},
        {"callable", {}, is_one_of<Kind::callable>},
        {"number", {}, is_one_of<Kind::integer, Kind::boolean, Kind::real>},
        {"integer", {}, is_one_of<Kind::integer>},
        {"float", {}, is_one_of<Kind::real>},
        {"boolean", {}, is_one_of<Kind::boolean>},
        {"true", {}, is_boolean<true>},
        {"false", {}, is_boolean<false>},
        {"odd", {}, has_parity<1>},
        {"even", {}, has_parity<0>},
        {"divisibleby", {"num"}, is_divisible},
        {"sameas", {"other"}, is_same},
        {"eq", {"other"}, is_equal<true>},
        {"ne", {"other"}, is_equal<false>},
        {"lt", {"other"}, is_ordered<-1, false>},
        {"le", {"other"}, is_ordered<-1, true>},
        {"gt", {"other"}, is_ordered<1, false>},
        {"ge", {"other"}, is_ordered<1, true>},
        {"in",
         {"sequence"},
         [](TemplateRun& run, const Value& value, const Bound& arguments) {
             return boolean_value(contains(run, other(run, arguments), value));
         }},
    };
    return table;
}

}  // namespace gptrain
