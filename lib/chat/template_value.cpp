#include "chat/template_value.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace gptrain {
namespace {

using Kind = TemplateValue::Kind;

constexpr std::int64_t max_value_depth = 64;
constexpr std::int64_t max_work = std::int64_t{1} << 22;

TemplateValue with_items(const TemplateRun& run, Kind kind, TemplateItems items) {
    for (const TemplateValue& value : items.values) {
        if (value.is(Kind::space)) run.fail("a namespace inside of another value is not supported");
        if (value.has_items()) items.depth = std::max(items.depth, value.items->depth + 1);
    }
    if (items.depth > max_value_depth)
        run.fail("a value is nested in more than ", max_value_depth, " others");
    TemplateValue value;
    value.kind = kind;
    value.items = std::make_shared<TemplateItems>(std::move(items));
    return value;
}

TemplateValue checked_string(const TemplateRun& run, std::string string) {
    const std::size_t at = find_invalid_utf8(string);
    if (at != string.npos) run.fail("a text of the conversation is not UTF-8 at byte ", at);
    return string_value(std::move(string));
}

}  // namespace

const TemplateValue* TemplateItems::find(std::string_view key) const {
    const auto found = std::find(keys.begin(), keys.end(), key);
    return found == keys.end() ? nullptr : &values[static_cast<std::size_t>(found - keys.begin())];
}

void TemplateRun::count(std::int64_t work) {
    work_ += work;
    if (work_ > max_work) fail("the template does too much work");
}

TemplateValue undefined_value(std::string name) {
    TemplateValue value;
    value.text = std::make_shared<const std::string>(std::move(name));
    return value;
}

TemplateValue none_value() {
    TemplateValue value;
    value.kind = Kind::none;
    return value;
}

TemplateValue boolean_value(bool boolean) {
    TemplateValue value;
    value.kind = Kind::boolean;
    value.number = boolean ? 1 : 0;
    return value;
}

TemplateValue integer_value(std::int64_t integer) {
    TemplateValue value;
    value.kind = Kind::integer;
    value.number = integer;
    return value;
}

TemplateValue string_value(std::string string) {
    TemplateValue value;
    value.kind = Kind::string;
    value.text = std::make_shared<const std::string>(std::move(string));
    return value;
}

TemplateValue list_value(const TemplateRun& run, std::vector<TemplateValue> values) {
    return with_items(run, Kind::list, {.keys = {}, .values = std::move(values)});
}

TemplateValue dict_value(const TemplateRun& run, std::vector<std::string> keys,
                         std::vector<TemplateValue> values) {
    return with_items(run, Kind::dict, {.keys = std::move(keys), .values = std::move(values)});
}

TemplateValue space_value(std::vector<std::string> keys, std::vector<TemplateValue> values) {
    TemplateValue value;
    value.kind = Kind::space;
    value.items = std::make_shared<TemplateItems>(
        TemplateItems{.keys = std::move(keys), .values = std::move(values)});
    return value;
}

TemplateValue value_of(const TemplateRun& run, const Json& json) {
    if (json.is_null()) return none_value();
    if (json.is_boolean()) return boolean_value(json.get<bool>());
    if (json.is_string()) return checked_string(run, json.get<std::string>());
    if (json.is_number()) {
        const bool fits = json.is_number_integer() &&
                          (!json.is_number_unsigned() || json.get<std::uint64_t>() <= INT64_MAX);
        const bool finite = !json.is_number_float() || std::isfinite(json.get<double>());
        if (!fits)
            run.fail("the number ", finite ? to_line(json) : "NaN or Infinity",
                     " is not a 64-bit integer");
        return integer_value(json.get<std::int64_t>());
    }
    std::vector<std::string> keys;
    std::vector<TemplateValue> values;
    for (const auto& [key, value] : json.items()) {
        if (json.is_object()) keys.emplace_back(checked_string(run, key).string());
        values.push_back(value_of(run, value));
    }
    return json.is_object() ? dict_value(run, std::move(keys), std::move(values))
                            : list_value(run, std::move(values));
}

bool is_true(const TemplateValue& value) {
    switch (value.kind) {
        case Kind::undefined:
        case Kind::none: return false;
        case Kind::boolean:
        case Kind::integer: return value.number != 0;
        case Kind::string: return !value.text->empty();
        case Kind::list:
        case Kind::dict: return !value.items->values.empty();
        case Kind::space: return true;
    }
    return false;
}

bool are_equal(const TemplateRun& run, const TemplateValue& a, const TemplateValue& b) {
    const auto is_number = [](const TemplateValue& value) {
        return value.is(Kind::boolean) || value.is(Kind::integer);
    };
    if (is_number(a) && is_number(b)) return a.number == b.number;
    if (a.kind != b.kind) return false;
    if (a.is_string()) return a.string() == b.string();
    if (!a.has_items()) return true;
    if (a.items->values.empty() || b.items->values.empty())
        return a.items->values.empty() && b.items->values.empty();
    run.fail("the comparison of two values that are ", kind_name(a), " is not supported");
}

std::string printed(const TemplateRun& run, const TemplateValue& value) {
    switch (value.kind) {
        case Kind::undefined:
            if (run.strict) run.fail("'", *value.text, "' is undefined");
            return "";
        case Kind::none: return "None";
        case Kind::boolean: return value.number != 0 ? "True" : "False";
        case Kind::integer: return text(value.number);
        case Kind::string: return std::string(value.string());
        default: run.fail("printing ", kind_name(value), " is not supported");
    }
}

std::string_view kind_name(const TemplateValue& value) {
    switch (value.kind) {
        case Kind::undefined: return "undefined";
        case Kind::none: return "none";
        case Kind::boolean: return "a boolean";
        case Kind::integer: return "a number";
        case Kind::string: return "a string";
        case Kind::list: return "a list";
        case Kind::dict: return "a dict";
        case Kind::space: return "a namespace";
    }
    return "";
}

std::string json_of(TemplateRun& run, const TemplateValue& value) {
    run.count(1);
    switch (value.kind) {
        case Kind::none: return "null";
        case Kind::boolean: return value.number != 0 ? "true" : "false";
        case Kind::integer: return text(value.number);
        case Kind::string: run.count_bytes(value.text->size()); return to_line(*value.text);
        case Kind::list:
        case Kind::dict: break;
        default: run.fail("tojson of ", kind_name(value), " is not supported");
    }
    const bool is_dict = value.is(Kind::dict);
    std::string out(1, is_dict ? '{' : '[');
    for (std::size_t i = 0; i < value.items->values.size(); ++i) {
        if (i > 0) out += ", ";
        if (is_dict) out += to_line(value.items->keys[i]) + ": ";
        out += json_of(run, value.items->values[i]);
        run.count_bytes(out.size());
    }
    return out + (is_dict ? '}' : ']');
}

}  // namespace gptrain
