// Filters of a text or of any value.
#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/template_builtins.h"
#include "chat/template_functions.h"
#include "chat/template_numbers.h"
#include "chat/template_text.h"

namespace gptrain {
namespace {

using Kind = TemplateValue::Kind;
using Value = TemplateValue;
using Bound = TemplateBound;

bool is_given(const Value* argument) {
    return argument != nullptr && !argument->is(Kind::none);
}

Value length_of(TemplateRun& run, const Value& value, const Bound&) {
    if (value.is(Kind::undefined)) return integer_value(0);
    if (value.is_string()) {
        run.count_bytes(value.text->size());
        return integer_value(count_characters(value.string()));
    }
    const bool lazy = value.has_items() && value.items->form == TemplateItems::Form::lazy;
    if (lazy) run.fail("length of a list that a filter makes; write '| list' before it");
    if (!value.is(Kind::list) && !value.is(Kind::dict)) run.fail("length of ", kind_name(value));
    return integer_value(std::ssize(value.items->values));
}

Value value_or_default(TemplateRun&, const Value& input, const Bound& arguments) {
    const bool falsy = arguments[1] != nullptr && is_true(*arguments[1]) && !is_true(input);
    if (!input.is(Kind::undefined) && !falsy) return input;
    return arguments[0] != nullptr ? *arguments[0] : string_value("");
}

/// transformers' tojson, with the options of json.dumps.
Value as_json(TemplateRun& run, const Value& input, const Bound& arguments) {
    const auto [ascii, indent, separators, sorted] =
        std::array{arguments[0], arguments[1], arguments[2], arguments[3]};
    JsonStyle style;
    style.ascii = is_given(ascii) && is_true(*ascii);
    style.sorted = is_given(sorted) && is_true(*sorted);
    if (is_given(indent)) {
        style.indented = true;
        style.between = ",";
        constexpr std::int64_t most = 64;
        const std::int64_t width =
            indent->is_string() ? 0 : integer_of(run, indent, 0, "tojson's indent");
        if (width > most) run.fail("tojson's indent is above ", most);
        style.indent =
            indent->is_string()
                ? std::string(indent->string())
                : std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
    if (is_given(separators)) {
        if (!separators->is(Kind::list) || separators->items->values.size() != 2)
            run.fail("tojson's separators must be two texts");
        style.between = string_of(run, &separators->items->values[0], "tojson");
        style.after_key = string_of(run, &separators->items->values[1], "tojson");
    }
    return string_value(json_of(run, input, style));
}

/// Puts blanks, or the text `width`, before each line but the first and those that are empty.
Value indented(TemplateRun& run, const Value& input, const Bound& arguments) {
    const auto [width, first, blank] = std::array{arguments[0], arguments[1], arguments[2]};
    constexpr std::int64_t most = 1024;
    std::string before(4, ' ');
    if (width != nullptr && width->is_string()) {
        before = width->string();
    } else if (width != nullptr) {
        const std::int64_t blanks = integer_of(run, width, 4, "indent");
        if (blanks > most) run.fail("indent by more than ", most, " blanks");
        before = std::string(static_cast<std::size_t>(std::max<std::int64_t>(blanks, 0)), ' ');
    }
    const std::string text = std::string(string_of(run, &input, "indent")) + "\n";
    std::string out = first != nullptr && is_true(*first) ? before : "";
    bool begun = false;
    for (const std::string_view line : lines_of(text)) {
        run.count_bytes(before.size() + line.size());
        const bool wanted = !line.empty() || (blank != nullptr && is_true(*blank));
        if (begun) out += wanted ? "\n" + before : "\n";
        begun = true;
        out += line;
    }
    return string_value(std::move(out));
}

Value whole_number(TemplateRun& run, const Value& input, const Bound& arguments) {
    if (const auto number = whole_number_of(run, input)) return *number;
    return arguments[0] != nullptr ? *arguments[0] : integer_value(0);
}

Value real_number(TemplateRun& run, const Value& input, const Bound& arguments) {
    if (const auto number = real_number_of(run, input)) return real_value(*number);
    return arguments[0] != nullptr ? *arguments[0] : real_value(0);
}

Value absolute(TemplateRun& run, const Value& input, const Bound&) {
    if (!input.is_number()) run.fail("abs of ", kind_name(input));
    const bool negative = input.as_real() < 0;
    return negative ? arithmetic(run, "-", integer_value(0), input) : input;
}

Value safe(TemplateRun& run, const Value& input, const Bound&) {
    Value marked = input.is_string() ? input : string_value(printed(run, input));
    marked.number = 1;
    return marked;
}

Value escaped(TemplateRun& run, const Value& input, const Bound&) {
    if (input.is_string() && input.number == 1) return input;
    Value text = counted_string(run, html_text(printed(run, input)));
    text.number = 1;
    return text;
}

}  // namespace

std::span<const TemplateBuiltin> value_filters() {
    static const std::vector<TemplateBuiltin> table = {
        {"trim",
         {"chars"},
         [](TemplateRun& run, const Value& input, const Bound& arguments) {
             return stripped_value(run, printed(run, input), arguments[0], StripSides::both);
         }},
        {"length", {}, length_of},
        {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, as_json},
        {"upper",
         {},
         [](TemplateRun& run, const Value& input, const Bound&) {
             return with_case(run, input, true);
         }},
        {"lower",
         {},
         [](TemplateRun& run, const Value& input, const Bound&) {
             return with_case(run, input, false);
         }},
        {"capitalize",
         {},
         [](TemplateRun& run, const Value& input, const Bound&) {
             return capitalized_value(run, input);
         }},
        {"default", {"default_value", "boolean"}, value_or_default},
        {"string",
         {},
         [](TemplateRun& run, const Value& input, const Bound&) {
             return input.is_string() ? input : counted_string(run, printed(run, input));
         }},
        {"safe", {}, safe},
        {"escape", {}, escaped},
        {"replace",
         {"old", "new", "count"},
         [](TemplateRun& run, const Value& input, const Bound& arguments) {
             return replaced_value(run, printed(run, input), arguments[0], arguments[1],
                                   arguments[2]);
         }},
        {"indent", {"width", "first", "blank"}, indented},
        {"int", {"default"}, whole_number},
        {"float", {"default"}, real_number},
        {"abs", {}, absolute},
        {"round",
         {"precision", "method"},
         [](TemplateRun& run, const Value& input, const Bound& arguments) {
             return rounded(
                 run, input, integer_of(run, arguments[0], 0, "round"),
                 arguments[1] == nullptr ? "common" : string_of(run, arguments[1], "round"));
         }},
    };
    return table;
}

}  // namespace gptrain
