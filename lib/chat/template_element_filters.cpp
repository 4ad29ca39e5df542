// Filters of the elements of a list, a dict or a text.
#include <algorithm>
#include <array>

#include "chat/template_builtins.h"
#include "chat/template_functions.h"
#include "chat/template_text.h"

namespace gptrain {
namespace {

using Kind = TemplateValue::Kind;
using Form = TemplateItems::Form;
using Value = TemplateValue;
using Bound = TemplateBound;

/// The elements; none of a value that is false, such as none.
std::vector<Value> elements_if_true(TemplateRun& run, const Value& value) {
    return is_true(value) ? elements_of(run, value) : std::vector<Value>();
}

/// The element, or the attribute of it that the argument names.
Value attribute_or_self(TemplateRun& run, const Value& element, const Value* attribute,
                        const Value* otherwise = nullptr) {
    if (attribute == nullptr || attribute->is(Kind::none)) return element;
    const std::string path = attribute->is_whole()
                                 ? printed(run, *attribute)
                                 : std::string(string_of(run, attribute, "an attribute"));
    return member_at(run, element, path, otherwise);
}

bool is_set(const Value* flag) {
    return flag != nullptr && is_true(*flag);
}

bool passes(TemplateRun& run, const Value& value, const Value* test, const Value* argument) {
    if (test == nullptr) return is_true(value);
    TemplateArguments given;
    if (argument != nullptr) given = {{*argument}, {""}};
    return apply_test(run, std::string(string_of(run, test, "the name of a test")), value, given);
}

/// The elements that pass (or fail) a test.
template <bool wanted>
Value selected(TemplateRun& run, const Value& input, const Bound& arguments) {
    std::vector<Value> chosen;
    for (const Value& element : elements_if_true(run, input))
        if (passes(run, element, arguments[0], arguments[1]) == wanted) chosen.push_back(element);
    return list_value(run, std::move(chosen), Form::lazy);
}

/// The elements whose attribute does.
template <bool wanted>
Value selected_by_attribute(TemplateRun& run, const Value& input, const Bound& arguments) {
    if (arguments[0] == nullptr) run.fail("selectattr and rejectattr need an attribute");
    std::vector<Value> chosen;
    for (const Value& element : elements_if_true(run, input)) {
        const Value member = attribute_or_self(run, element, arguments[0]);
        if (passes(run, member, arguments[1], arguments[2]) == wanted) chosen.push_back(element);
    }
    return list_value(run, std::move(chosen), Form::lazy);
}

/// An attribute of each element, or each element through a filter.
Value mapped(TemplateRun& run, const Value& input, const Bound& arguments) {
    const auto [name, first, second] = std::array{arguments[0], arguments[1], arguments[2]};
    const auto [attribute, otherwise] = std::array{arguments[3], arguments[4]};
    if ((name == nullptr) == (attribute == nullptr))
        run.fail("map needs either a filter or an attribute");
    TemplateArguments given;
    for (const Value* argument : {first, second}) {
        if (argument == nullptr) continue;
        given.values.push_back(*argument);
        given.keywords.emplace_back();
    }
    std::vector<Value> results;
    for (const Value& element : elements_if_true(run, input)) {
        run.count(1);
        results.push_back(
            name != nullptr
                ? apply_filter(run, std::string(string_of(run, name, "map")), element, given)
                : attribute_or_self(run, element, attribute, otherwise));
    }
    return list_value(run, std::move(results), Form::lazy);
}

Value joined(TemplateRun& run, const Value& input, const Bound& arguments) {
    const std::string between = arguments[0] != nullptr ? printed(run, *arguments[0]) : "";
    std::string out;
    bool first = true;
    for (const Value& element : elements_of(run, input)) {
        if (!first) out += between;
        first = false;
        const std::string part = printed(run, attribute_or_self(run, element, arguments[1]));
        run.count_bytes(part.size() + between.size());
        out += part;
    }
    return string_value(std::move(out));
}

Value first_of(TemplateRun& run, const Value& input, const Bound&) {
    const std::vector<Value> elements = elements_of(run, input);
    return elements.empty() ? undefined_value("the first element") : elements.front();
}

Value last_of(TemplateRun& run, const Value& input, const Bound&) {
    if (input.has_items() && input.items->form == Form::lazy)
        run.fail("last of a list that a filter makes; write '| list' before it");
    const std::vector<Value> elements = elements_of(run, input);
    return elements.empty() ? undefined_value("the last element") : elements.back();
}

Value reversed(TemplateRun& run, const Value& input, const Bound&) {
    if (input.is_string()) {
        const Value step = integer_value(-1);
        return slice_of(run, input, nullptr, nullptr, &step);
    }
    std::vector<Value> elements = elements_of(run, input);
    std::reverse(elements.begin(), elements.end());
    return list_value(run, std::move(elements), Form::lazy);
}

/// The values by which the elements are compared: an attribute, and texts in lower case unless the
/// case counts.
std::vector<Value> keys_of(TemplateRun& run, const std::vector<Value>& elements,
                           const Value* attribute, const Value* case_sensitive) {
    std::vector<Value> keys;
    for (const Value& element : elements) {
        Value key = attribute_or_self(run, element, attribute);
        const bool fold = key.is_string() && !is_set(case_sensitive);
        keys.push_back(fold ? with_case(run, key, false) : std::move(key));
    }
    return keys;
}

/// The elements in the order of their keys.
std::vector<Value> in_order(TemplateRun& run, const std::vector<Value>& elements,
                            const std::vector<Value>& keys, bool backwards) {
    std::vector<std::size_t> order(elements.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        run.count(1);
        return order_of(run, keys[backwards ? b : a], keys[backwards ? a : b]) < 0;
    });
    std::vector<Value> sorted;
    for (const std::size_t i : order)
        sorted.push_back(elements[i]);
    return sorted;
}

Value sorted(TemplateRun& run, const Value& input, const Bound& arguments) {
    const auto [reverse, case_sensitive, attribute] =
        std::array{arguments[0], arguments[1], arguments[2]};
    const std::vector<Value> elements = elements_of(run, input);
    return list_value(run,
                      in_order(run, elements, keys_of(run, elements, attribute, case_sensitive),
                               is_set(reverse)));
}

/// The pairs of a dict, in the order of their keys or values.
Value sorted_dict(TemplateRun& run, const Value& input, const Bound& arguments) {
    const auto [case_sensitive, by, reverse] = std::array{arguments[0], arguments[1], arguments[2]};
    const std::string_view what = by == nullptr ? "key" : string_of(run, by, "dictsort");
    if (what != "key" && what != "value") run.fail("dictsort needs by='key' or by='value'");
    if (!input.is(Kind::dict)) run.fail("dictsort of ", kind_name(input));
    const std::vector<Value> pairs = items_of(run, input);
    const Value place = integer_value(what == "key" ? 0 : 1);
    return list_value(
        run, in_order(run, pairs, keys_of(run, pairs, &place, case_sensitive), is_set(reverse)));
}

/// Each element whose key no earlier one has.
Value unique(TemplateRun& run, const Value& input, const Bound& arguments) {
    const std::vector<Value> elements = elements_of(run, input);
    const std::vector<Value> keys = keys_of(run, elements, arguments[1], arguments[0]);
    std::vector<Value> chosen;
    for (std::size_t i = 0; i < elements.size(); ++i) {
        const auto here = keys.begin() + static_cast<std::ptrdiff_t>(i);
        const bool known = std::any_of(keys.begin(), here, [&](const Value& earlier) {
            return are_equal(run, earlier, *here);
        });
        if (!known) chosen.push_back(elements[i]);
    }
    return list_value(run, std::move(chosen), Form::lazy);
}

/// The smallest or largest element, the first of several.
template <int sign>
Value extreme(TemplateRun& run, const Value& input, const Bound& arguments) {
    const std::vector<Value> elements = elements_of(run, input);
    const std::vector<Value> keys = keys_of(run, elements, arguments[1], arguments[0]);
    if (elements.empty()) return undefined_value(sign < 0 ? "the minimum" : "the maximum");
    std::size_t best = 0;
    for (std::size_t i = 1; i < elements.size(); ++i)
        if (sign * order_of(run, keys[i], keys[best]) > 0) best = i;
    return elements[best];
}

}  // namespace

std::span<const TemplateBuiltin> element_filters() {
    static const std::vector<TemplateBuiltin> table = {
        {"first", {}, first_of},
        {"last", {}, last_of},
        {"join", {"d", "attribute"}, joined},
        {"list",
         {},
         [](TemplateRun& run, const Value& input, const Bound&) {
             return list_value(run, elements_of(run, input));
         }},
        {"items",
         {},
         [](TemplateRun& run, const Value& input, const Bound&) {
             return list_value(run, items_of(run, input), Form::lazy);
         }},
        {"map", {"name", "first", "second", "attribute", "default"}, mapped},
        {"select", {"test", "value"}, selected<true>},
        {"reject", {"test", "value"}, selected<false>},
        {"selectattr", {"attribute", "test", "value"}, selected_by_attribute<true>},
        {"rejectattr", {"attribute", "test", "value"}, selected_by_attribute<false>},
        {"reverse", {}, reversed},
        {"sort", {"reverse", "case_sensitive", "attribute"}, sorted},
        {"dictsort", {"case_sensitive", "by", "reverse"}, sorted_dict},
        {"unique", {"case_sensitive", "attribute"}, unique},
        {"min", {"case_sensitive", "attribute"}, extreme<-1>},
        {"max", {"case_sensitive", "attribute"}, extreme<1>},
    };
    return table;
}

}  // namespace gptrain
