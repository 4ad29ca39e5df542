// Methods of strings and dicts, and functions.
#include <algorithm>

#include "base/utf8.h"
#include "chat/template_builtins.h"
#include "chat/template_clock.h"
#include "chat/template_functions.h"
#include "chat/template_text.h"

namespace gptrain {
namespace {

using Kind = TemplateValue::Kind;
using Value = TemplateValue;
using Bound = TemplateBound;

template <StripSides sides>
Value stripped(TemplateRun& run, const Value& object, const Bound& arguments) {
    return stripped_value(run, object.string(), arguments[0], sides);
}

/// The text begins (or ends) with the argument, or with one of a list.
template <bool begin>
Value has_end(TemplateRun& run, const Value& object, const Bound& arguments) {
    const auto has = [&](const Value* part) {
        const std::string_view end = string_of(run, part, begin ? "startswith" : "endswith");
        return begin ? object.string().starts_with(end) : object.string().ends_with(end);
    };
    const bool several = arguments[0] != nullptr && arguments[0]->is(Kind::list) &&
                         arguments[0]->items->form == TemplateItems::Form::tuple;
    if (!several) return boolean_value(has(arguments[0]));
    const auto& parts = arguments[0]->items->values;
    return boolean_value(
        std::any_of(parts.begin(), parts.end(), [&](const Value& part) { return has(&part); }));
}

Value found_at(TemplateRun& run, const Value& object, const Bound& arguments) {
    run.count_bytes(object.text->size());
    const std::size_t at = object.string().find(string_of(run, arguments[0], "find"));
    if (at == std::string_view::npos) return integer_value(-1);
    return integer_value(count_characters(object.string().substr(0, at)));
}

Value joined_strings(TemplateRun& run, const Value& object, const Bound& arguments) {
    if (arguments[0] == nullptr) run.fail("join needs a list");
    std::string out;
    bool first = true;
    for (const Value& part : elements_of(run, *arguments[0])) {
        const std::string_view word = string_of(run, &part, "join");
        run.count_bytes(word.size() + object.text->size());
        if (!first) out += object.string();
        first = false;
        out += word;
    }
    return string_value(std::move(out));
}

Value member_or(TemplateRun& run, const Value& object, const Bound& arguments) {
    if (arguments[0] == nullptr) run.fail("get needs a key");
    run.count(1);
    const Value* found = object.items->find(*arguments[0]);
    if (found != nullptr) return *found;
    return arguments[1] != nullptr ? *arguments[1] : none_value();
}

Value numbers_below(TemplateRun& run, const Value&, const Bound& arguments) {
    for (const Value* argument : arguments)
        if (argument != nullptr && !argument->is_whole()) run.fail("range needs integers");
    if (arguments[0] == nullptr) run.fail("range needs an integer");
    const bool both = arguments[1] != nullptr;
    const std::int64_t begin = both ? arguments[0]->number : 0;
    const std::int64_t end = both ? arguments[1]->number : arguments[0]->number;
    const std::int64_t step = integer_of(run, arguments[2], 1, "range");
    if (step == 0) run.fail("range in steps of 0");
    std::vector<Value> values;
    for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
        run.count(16);
        values.push_back(integer_value(i));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return list_value(run, std::move(values));
}

Value refusal(TemplateRun& run, const Value&, const Bound& arguments) {
    const Value reason = arguments[0] == nullptr ? Value() : *arguments[0];
    const std::string why = reason.is(Kind::undefined) ? "" : printed(run, reason);
    run.fail("the template refuses the conversation",
             why.empty() ? " and gives no reason" : ": " + why);
}

}  // namespace

std::span<const TemplateBuiltin> string_methods() {
    static const std::vector<TemplateBuiltin> table = {
        {"strip", {"chars"}, stripped<StripSides::both>},
        {"lstrip", {"chars"}, stripped<StripSides::left>},
        {"rstrip", {"chars"}, stripped<StripSides::right>},
        {"split",
         {"sep", "maxsplit"},
         [](TemplateRun& run, const Value& object, const Bound& arguments) {
             return split_value(run, object.string(), arguments[0], arguments[1]);
         }},
        {"splitlines",
         {},
         [](TemplateRun& run, const Value& object, const Bound&) {
             return strings_value(run, lines_of(object.string()));
         }},
        {"startswith", {"prefix"}, has_end<true>},
        {"endswith", {"suffix"}, has_end<false>},
        {"replace",
         {"old", "new", "count"},
         [](TemplateRun& run, const Value& object, const Bound& arguments) {
             return replaced_value(run, object.string(), arguments[0], arguments[1], arguments[2]);
         }},
        {"find", {"sub"}, found_at},
        {"join", {"iterable"}, joined_strings},
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

std::span<const TemplateBuiltin> dict_methods() {
    static const std::vector<TemplateBuiltin> table = {
        {"items",
         {},
         [](TemplateRun& run, const Value& object, const Bound&) {
             return list_value(run, items_of(run, object));
         }},
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
        {"get", {"key", "default"}, member_or},
    };
    return table;
}

std::span<const TemplateBuiltin> plain_functions() {
    static const std::vector<TemplateBuiltin> table = {
        {"raise_exception", {"message"}, refusal},
        {"range", {"start", "stop", "step"}, numbers_below},
        {"strftime_now",
         {"format"},
         [](TemplateRun& run, const Value&, const Bound& arguments) {
             const std::string_view format = string_of(run, arguments[0], "strftime_now");
             return counted_string(run, now_text(run, format));
         }},
    };
    return table;
}

}  // namespace gptrain
