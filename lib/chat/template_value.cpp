#include "chat/template_value.h"

#include <algorithm>

#include "base/utf8.h"

namespace gptrain {
namespace {

using Kind = TemplateValue::Kind;

constexpr std::int64_t max_value_depth = 64;
constexpr std::int64_t max_work = std::int64_t{1} << 22;

TemplateValue with_items(const TemplateRun& run, Kind kind, TemplateItems items) {
    for (const TemplateValue& value : items.values) {
        if (value.is(Kind::space) || value.is(Kind::callable))
            run.fail(kind_name(value), " inside of another value is not supported");
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

TemplateValue number_of(const TemplateRun& run, const Json& json) {
    if (json.is_number_float()) return real_value(json.get<double>());
    if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX)
        run.fail("the number ", to_line(json), " is not a 64-bit integer");
    return integer_value(json.get<std::int64_t>());
}

/// As dicts compare keys.
bool are_same_key(const TemplateValue& a, const TemplateValue& b) {
    if (a.is_whole() && b.is_whole()) return a.number == b.number;
    if (a.is_number() && b.is_number()) return a.as_real() == b.as_real();
    return a.kind == b.kind && (!a.is_string() || a.string() == b.string());
}

bool are_equal_items(TemplateRun& run, const TemplateItems& a, const TemplateItems& b) {
    if (a.values.size() != b.values.size() || a.form != b.form) return false;
    for (std::size_t i = 0; i < a.values.size(); ++i) {
        const TemplateValue* other = &b.values[i];
        if (!a.keys.empty()) {
            run.count(std::ssize(b.keys));
            other = b.find(a.keys[i]);
        }
        if (other == nullptr || !are_equal(run, a.values[i], *other)) return false;
    }
    return true;
}

}  // namespace

const TemplateValue* TemplateItems::find(const TemplateValue& key) const {
    const auto found = std::find_if(
        keys.begin(), keys.end(), [&](const TemplateValue& one) { return are_same_key(one, key); });
    return found == keys.end() ? nullptr : &values[static_cast<std::size_t>(found - keys.begin())];
}

void TemplateItems::put(const TemplateValue& key, TemplateValue value) {
    if (const TemplateValue* known = find(key)) {
        values[static_cast<std::size_t>(known - values.data())] = std::move(value);
    } else {
        keys.push_back(key);
        values.push_back(std::move(value));
    }
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

TemplateValue real_value(double real) {
    TemplateValue value;
    value.kind = Kind::real;
    value.real = real;
    return value;
}

TemplateValue string_value(std::string string) {
    TemplateValue value;
    value.kind = Kind::string;
    value.text = std::make_shared<const std::string>(std::move(string));
    return value;
}

TemplateValue list_value(const TemplateRun& run, std::vector<TemplateValue> values,
                         TemplateItems::Form form) {
    return with_items(run, Kind::list, {.keys = {}, .values = std::move(values), .form = form});
}

TemplateValue dict_value(const TemplateRun& run, std::vector<TemplateValue> keys,
                         std::vector<TemplateValue> values) {
    return with_items(run, Kind::dict, {.keys = std::move(keys), .values = std::move(values)});
}

TemplateValue space_value(std::vector<TemplateValue> keys, std::vector<TemplateValue> values) {
    TemplateValue value;
    value.kind = Kind::space;
    value.items = std::make_shared<TemplateItems>(
        TemplateItems{.keys = std::move(keys), .values = std::move(values)});
    return value;
}

std::vector<TemplateValue> string_values(const std::vector<std::string>& strings) {
    std::vector<TemplateValue> values;
    for (const std::string& string : strings)
        values.push_back(string_value(string));
    return values;
}

TemplateValue callable_value(const TemplateNode* macro, std::int64_t scope) {
    TemplateValue value;
    value.kind = Kind::callable;
    value.macro = macro;
    value.number = scope;
    return value;
}

TemplateValue value_of(const TemplateRun& run, const Json& json) {
    if (json.is_null()) return none_value();
    if (json.is_boolean()) return boolean_value(json.get<bool>());
    if (json.is_string()) return checked_string(run, json.get<std::string>());
    if (json.is_number()) return number_of(run, json);
    std::vector<TemplateValue> keys;
    std::vector<TemplateValue> values;
    for (const auto& [key, value] : json.items()) {
        if (json.is_object()) keys.push_back(checked_string(run, key));
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
        case Kind::real: return value.real != 0;
        case Kind::string: return !value.text->empty();
        case Kind::list:
        case Kind::dict:
            return !value.items->values.empty() || value.items->form == TemplateItems::Form::lazy;
        case Kind::space:
        case Kind::callable: return true;
    }
    return false;
}

bool are_equal(TemplateRun& run, const TemplateValue& a, const TemplateValue& b) {
    run.count(1);
    if (a.is_whole() && b.is_whole()) return a.number == b.number;
    if (a.is_number() && b.is_number()) return a.as_real() == b.as_real();
    if (a.kind != b.kind) return false;
    if (a.is_string()) {
        run.count_bytes(std::min(a.text->size(), b.text->size()));
        return a.string() == b.string();
    }
    if (a.is(Kind::callable)) return a.macro == b.macro && a.number == b.number;
    if (a.is(Kind::space)) return a.items == b.items;
    return !a.has_items() || are_equal_items(run, *a.items, *b.items);
}

int order_of(const TemplateRun& run, const TemplateValue& a, const TemplateValue& b) {
    if (a.is_string() && b.is_string()) return a.string().compare(b.string());
    if (a.is_whole() && b.is_whole()) return a.number < b.number ? -1 : a.number > b.number;
    if (a.is_number() && b.is_number()) {
        const double x = a.as_real();
        const double y = b.as_real();
        return x < y ? -1 : x > y;
    }
    for (const TemplateValue* value : {&a, &b})
        if (value->is(Kind::undefined)) run.fail("'", *value->text, "' is undefined");
    run.fail("the order of ", kind_name(a), " and ", kind_name(b), " is not supported");
}

std::string_view kind_name(const TemplateValue& value) {
    switch (value.kind) {
        case Kind::undefined: return "undefined";
        case Kind::none: return "none";
        case Kind::boolean: return "a boolean";
        case Kind::integer:
        case Kind::real: return "a number";
        case Kind::string: return "a string";
        case Kind::list: return "a list";
        case Kind::dict: return "a dict";
        case Kind::space: return "a namespace";
        case Kind::callable: return "a function";
    }
    return "";
}

}  // namespace gptrain
