#include "chat/template_functions.h"

#include <algorithm>

#include "unicode/unicode.h"

namespace gptrain {

namespace {

using Kind = TemplateValue::Kind;

/// The characters to strip; empty: white space.
std::string_view stripped_set(const TemplateRun& run, const TemplateValue* argument) {
    if (argument == nullptr || argument->is(Kind::none)) return "";
    return string_of(run, argument, "strip");
}

}  // namespace

std::string_view string_of(const TemplateRun& run, const TemplateValue* value,
                           std::string_view what) {
    if (value == nullptr || !value->is_string()) {
        run.fail(what, " needs a string, not ", value == nullptr ? "nothing" : kind_name(*value));
    }
    return value->string();
}

TemplateValue counted_string(TemplateRun& run, std::string string) {
    run.count_bytes(string.size());
    return string_value(std::move(string));
}
TemplateValue stripped_value(TemplateRun& run, std::string_view string,
                             const TemplateValue* argument, StripSides sides) {
    return counted_string(run, std::string(strip_text(string, stripped_set(run, argument), sides)));
}
TemplateValue replaced_value(TemplateRun& run, std::string_view text, const TemplateValue* from,
                             const TemplateValue* to) {
    const std::string_view old = string_of(run, from, "replace");
    const std::string_view with = string_of(run, to, "replace");
    if (old.empty()) run.fail("replace of an empty text is not supported");
    std::string out;
    while (true) {
        const std::size_t at = text.find(old);
        out += text.substr(0, at);
        run.count_bytes(std::min(at, text.size()) + with.size());
        if (at == text.npos) return string_value(std::move(out));
        out += with;
        text.remove_prefix(at + old.size());
    }
}

TemplateValue split_value(TemplateRun& run, std::string_view text, const TemplateValue* separator,
                          const TemplateValue* most) {
    if (separator == nullptr) run.fail("split without a separator is not supported");
    const std::string_view by = string_of(run, separator, "split");
    if (by.empty()) run.fail("split by an empty text");
    if (most != nullptr && !most->is(Kind::integer)) run.fail("split needs an integer as maxsplit");
    const std::int64_t limit = most == nullptr ? -1 : most->number;
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

TemplateValue items_of(TemplateRun& run, const TemplateValue& dict) {
    std::vector<TemplateValue> pairs;
    if (dict.is(Kind::undefined)) return list_value(run, {});
    if (!dict.is(Kind::dict)) run.fail("items of ", kind_name(dict));
    for (std::size_t i = 0; i < dict.items->values.size(); ++i) {
        run.count(16);
        pairs.push_back(
            list_value(run, {string_value(dict.items->keys[i]), dict.items->values[i]}));
    }
    return list_value(run, std::move(pairs));
}

bool contains(TemplateRun& run, const TemplateValue& where, const TemplateValue& what) {
    if (where.is_string()) {
        run.count_bytes(where.text->size());
        return where.string().find(string_of(run, &what, "in")) != std::string::npos;
    }
    if (where.is(Kind::undefined)) return false;
    if (!where.has_items()) run.fail("'in' of ", kind_name(where), ", which has no elements");
    run.count(std::ssize(where.items->values));
    if (!where.is(Kind::list))
        return what.is_string() && where.items->find(what.string()) != nullptr;
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
    for (const std::string& key : value.items->keys) {
        run.count(16);
        elements.push_back(string_value(key));
    }
    return elements;
}

TemplateValue member_of(TemplateRun& run, const TemplateValue& object, const TemplateValue& key) {
    if (object.is(Kind::undefined)) run.fail("'", *object.text, "' is undefined");
    const std::string name = key.is_string() ? std::string(key.string()) : printed(run, key);
    if (object.is(Kind::dict) || object.is(Kind::space)) {
        const TemplateValue* found = key.is_string() ? object.items->find(name) : nullptr;
        return found != nullptr ? *found : undefined_value(name);
    }
    if (!key.is(Kind::integer)) return undefined_value(name);
    if (object.is_string()) {
        run.count(std::ssize(*object.text));
        const auto characters = characters_of(object.string());
        const std::int64_t at = key.number + (key.number < 0 ? std::ssize(characters) : 0);
        if (at < 0 || at >= std::ssize(characters)) return undefined_value(name);
        return string_value(std::string(characters[static_cast<std::size_t>(at)]));
    }
    if (!object.is(Kind::list)) return undefined_value(name);
    const auto& values = object.items->values;
    const std::int64_t at = key.number + (key.number < 0 ? std::ssize(values) : 0);
    if (at < 0 || at >= std::ssize(values)) return undefined_value(name);
    return values[static_cast<std::size_t>(at)];
}

}  // namespace gptrain
