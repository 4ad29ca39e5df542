#include "chat/template_functions.h"

#include <algorithm>

#include "chat/template_text.h"
#include "unicode/unicode.h"

namespace gptrain {
namespace {

using Kind = TemplateValue::Kind;

/// The characters to strip; empty: white space.
std::string_view stripped_set(const TemplateRun& run, const TemplateValue* argument) {
    if (argument == nullptr || argument->is(Kind::none)) return "";
    return string_of(run, argument, "strip");
}

/// Where `old` occurs first; before each character if it is empty.
std::size_t find_old(std::string_view text, std::string_view old, bool first) {
    if (!old.empty() || first) return text.find(old);
    return text.empty() ? text.npos : first_char(text).bytes;
}

}  // namespace

std::string_view string_of(const TemplateRun& run, const TemplateValue* value,
                           std::string_view what) {
    if (value == nullptr || !value->is_string()) {
        run.fail(what, " needs a string, not ", value == nullptr ? "nothing" : kind_name(*value));
    }
    return value->string();
}

std::int64_t integer_of(const TemplateRun& run, const TemplateValue* value, std::int64_t missing,
                        std::string_view what) {
    if (value == nullptr) return missing;
    if (!value->is_whole()) run.fail(what, " needs an integer, not ", kind_name(*value));
    return value->number;
}

TemplateValue counted_string(TemplateRun& run, std::string string) {
    run.count_bytes(string.size());
    return string_value(std::move(string));
}

TemplateValue strings_value(TemplateRun& run, const std::vector<std::string_view>& strings) {
    std::vector<TemplateValue> values;
    for (const std::string_view string : strings) {
        run.count(16);
        values.push_back(counted_string(run, std::string(string)));
    }
    return list_value(run, std::move(values));
}

TemplateValue stripped_value(TemplateRun& run, std::string_view string,
                             const TemplateValue* argument, StripSides sides) {
    return counted_string(run, std::string(strip_text(string, stripped_set(run, argument), sides)));
}

TemplateValue replaced_value(TemplateRun& run, std::string_view text, const TemplateValue* from,
                             const TemplateValue* to, const TemplateValue* most) {
    const std::string_view old = string_of(run, from, "replace");
    const std::string_view with = string_of(run, to, "replace");
    const bool limited = most != nullptr && !most->is(Kind::none);
    const std::int64_t limit = limited ? integer_of(run, most, -1, "replace") : -1;
    std::string out;
    for (std::int64_t count = 0;; ++count) {
        const std::size_t at = count == limit ? text.npos : find_old(text, old, count == 0);
        out += text.substr(0, at);
        run.count_bytes(std::min(at, text.size()) + with.size());
        if (at == text.npos) return string_value(std::move(out));
        out += with;
        text.remove_prefix(at + old.size());
    }
}

TemplateValue split_value(TemplateRun& run, std::string_view text, const TemplateValue* separator,
                          const TemplateValue* most) {
    const std::int64_t limit = integer_of(run, most, -1, "split");
    if (separator == nullptr || separator->is(Kind::none)) {
        if (limit >= 0) run.fail("split by white space takes no limit in templates");
        return strings_value(run, words_of(text));
    }
    const std::string_view by = string_of(run, separator, "split");
    if (by.empty()) run.fail("split by an empty text");
    std::vector<TemplateValue> parts;
    while (true) {
        const std::size_t at = std::ssize(parts) == limit ? text.npos : text.find(by);
        run.count(16);
        parts.push_back(counted_string(run, std::string(text.substr(0, at))));
        if (at == text.npos) return list_value(run, std::move(parts));
        text.remove_prefix(at + by.size());
    }
}

TemplateValue with_case(TemplateRun& run, const TemplateValue& input, bool upper) {
    const std::string string = printed(run, input);
    std::string changed;
    for (std::string_view rest = string; !rest.empty();) {
        const DecodedChar letter = first_char(rest);
        const char32_t other = change_case(letter.code, upper);
        if (other == 0) {
            run.fail(upper ? "upper" : "lower", " of '", rest.substr(0, letter.bytes),
                     "' is not supported");
        }
        append_char(changed, other);
        rest.remove_prefix(letter.bytes);
    }
    return counted_string(run, std::move(changed));
}

TemplateValue capitalized_value(TemplateRun& run, const TemplateValue& input) {
    const TemplateValue lower = with_case(run, input, false);
    const std::string_view word = lower.string();
    const std::size_t begin = word.empty() ? 0 : first_char(word).bytes;
    const TemplateValue first =
        with_case(run, string_value(std::string(word.substr(0, begin))), true);
    return string_value(text(first.string(), word.substr(begin)));
}

std::vector<TemplateValue> items_of(TemplateRun& run, const TemplateValue& dict) {
    std::vector<TemplateValue> pairs;
    if (dict.is(Kind::undefined)) return pairs;
    if (!dict.is(Kind::dict)) run.fail("items of ", kind_name(dict));
    for (std::size_t i = 0; i < dict.items->values.size(); ++i) {
        run.count(16);
        pairs.push_back(list_value(run, {dict.items->keys[i], dict.items->values[i]},
                                   TemplateItems::Form::tuple));
    }
    return pairs;
}

bool contains(TemplateRun& run, const TemplateValue& where, const TemplateValue& what) {
    if (where.is_string()) {
        run.count_bytes(where.text->size());
        return where.string().find(string_of(run, &what, "in")) != std::string::npos;
    }
    if (where.is(Kind::undefined)) return false;
    if (!where.has_items()) run.fail("'in' of ", kind_name(where), ", which has no elements");
    run.count(std::ssize(where.items->values));
    if (!where.is(Kind::list)) return where.items->find(what) != nullptr;
    return std::any_of(where.items->values.begin(), where.items->values.end(),
                       [&](const TemplateValue& value) { return are_equal(run, value, what); });
}

std::vector<TemplateValue> elements_of(TemplateRun& run, const TemplateValue& value) {
    std::vector<TemplateValue> elements;
    if (value.is(Kind::undefined)) return elements;
    if (value.is_string()) {
        for (const std::string_view character : characters_of(value.string())) {
            run.count(16);
            elements.push_back(string_value(std::string(character)));
        }
        return elements;
    }
    if (value.is(Kind::list)) {
        run.count(std::ssize(value.items->values));
        return value.items->values;
    }
    if (!value.is(Kind::dict)) run.fail(kind_name(value), " has no elements");
    run.count(std::ssize(value.items->keys));
    return value.items->keys;
}

}  // namespace gptrain
