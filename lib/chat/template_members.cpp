// Attributes, indices and slices of template values.
#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/template_functions.h"
#include "chat/template_text.h"

namespace gptrain {
namespace {

using Kind = TemplateValue::Kind;

/// The methods that Python's dicts, lists and strings have, and that templates may name: not those
/// that change the object.
constexpr std::array<std::string_view, 6> dict_attributes = {"copy",  "fromkeys", "get",
                                                             "items", "keys",     "values"};
constexpr std::array<std::string_view, 3> list_attributes = {"copy", "count", "index"};
constexpr std::array<std::string_view, 47> string_attributes = {
    "capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
    "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
    "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
    "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
    "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
    "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
    "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
    "swapcase",     "title",       "translate", "upper",      "zfill"};

bool has_method(const TemplateValue& object, std::string_view name) {
    const auto holds = [name](const auto& names) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (object.is_string()) return holds(string_attributes);
    if (object.is(Kind::dict)) return holds(dict_attributes);
    return object.is(Kind::list) && object.items->form == TemplateItems::Form::list &&
           holds(list_attributes);
}

void require_defined(const TemplateRun& run, const TemplateValue& object) {
    if (object.is(Kind::undefined)) run.fail("'", *object.text, "' is undefined");
}

/// The element of a list or a string; undefined if there is none.
TemplateValue element_at(TemplateRun& run, const TemplateValue& object, std::int64_t index) {
    const bool string = object.is_string();
    if (string) run.count_bytes(object.text->size());
    const std::int64_t size =
        string ? count_characters(object.string()) : std::ssize(object.items->values);
    const std::int64_t at = index + (index < 0 ? size : 0);
    if (at < 0 || at >= size) return undefined_value(text(index));
    if (!string) return object.items->values[static_cast<std::size_t>(at)];
    return string_value(std::string(cut_text(object.string(), at, at + 1)));
}

/// A bound of a slice, cut to the list as in Python: counted from the end if it is negative.
std::int64_t bound_of(const TemplateRun& run, const TemplateValue* bound, std::int64_t size,
                      std::int64_t step, std::int64_t missing) {
    if (bound == nullptr || bound->is(Kind::none)) return missing;
    const std::int64_t at = integer_of(run, bound, missing, "a slice");
    return std::clamp(at < 0 ? at + size : at, std::int64_t{step < 0 ? -1 : 0},
                      step < 0 ? size - 1 : size);
}

}  // namespace

TemplateValue member_of(TemplateRun& run, const TemplateValue& object, const TemplateValue& key) {
    require_defined(run, object);
    if (object.is(Kind::dict) || object.is(Kind::space)) {
        run.count(1);
        const TemplateValue* found = object.items->find(key);
        if (found != nullptr) return *found;
    }
    if (key.is_string()) {
        if (has_method(object, key.string())) return callable_value();
        return undefined_value(std::string(key.string()));
    }
    const bool sequence = object.is_string() || (object.is(Kind::list) &&
                                                 object.items->form != TemplateItems::Form::lazy);
    if (sequence && key.is_whole()) return element_at(run, object, key.number);
    return undefined_value(printed(run, key));
}

TemplateValue attribute_of(TemplateRun& run, const TemplateValue& object, const std::string& name) {
    if (has_method(object, name)) return callable_value();
    return member_of(run, object, string_value(name));
}

TemplateValue member_at(TemplateRun& run, const TemplateValue& object, std::string_view path,
                        const TemplateValue* otherwise) {
    TemplateValue member = object;
    while (true) {
        const std::string_view part = path.substr(0, path.find('.'));
        const bool index = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
        const auto number = index ? parse_int(part) : std::nullopt;
        member = member_of(run, member,
                           number ? integer_value(*number) : string_value(std::string(part)));
        if (member.is(Kind::undefined) && otherwise != nullptr) member = *otherwise;
        if (part.size() == path.size()) return member;
        path.remove_prefix(part.size() + 1);
    }
}

TemplateValue slice_of(TemplateRun& run, const TemplateValue& object, const TemplateValue* begin,
                       const TemplateValue* end, const TemplateValue* step) {
    require_defined(run, object);
    const bool string = object.is_string();
    if (!string && (!object.is(Kind::list) || object.items->form == TemplateItems::Form::lazy))
        run.fail("a slice of ", kind_name(object), " is not supported");
    if (string) run.count_bytes(object.text->size());
    const std::int64_t size =
        string ? count_characters(object.string()) : std::ssize(object.items->values);
    const bool has_step = step != nullptr && !step->is(Kind::none);
    const std::int64_t by = has_step ? integer_of(run, step, 1, "a slice") : 1;
    if (by == 0) run.fail("a slice in steps of 0");
    const std::int64_t first = bound_of(run, begin, size, by, by < 0 ? size - 1 : 0);
    const std::int64_t last = bound_of(run, end, size, by, by < 0 ? -1 : size);
    if (string && by == 1)
        return counted_string(run, std::string(cut_text(object.string(), first, last)));
    const std::vector<TemplateValue> elements = elements_of(run, object);
    std::vector<TemplateValue> chosen;
    for (std::int64_t i = first; by < 0 ? i > last : i < last;) {
        chosen.push_back(elements[static_cast<std::size_t>(i)]);
        if (__builtin_add_overflow(i, by, &i)) break;
    }
    if (!string) return list_value(run, std::move(chosen), object.items->form);
    std::string text;
    for (const TemplateValue& character : chosen)
        text += character.string();
    return string_value(std::move(text));
}

}  // namespace gptrain
