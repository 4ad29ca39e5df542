// Functions that the filters and methods of chat templates share, and the access of expressions to
// members. Errors come from TemplateRun::fail.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/template_strings.h"
#include "chat/template_value.h"

namespace gptrain {

/// The string that `what` needs; Error if the value is null or something else.
std::string_view string_of(const TemplateRun& run, const TemplateValue* value,
                           std::string_view what);
/// The integer that `what` needs, or `missing` if the value is null.
std::int64_t integer_of(const TemplateRun& run, const TemplateValue* value, std::int64_t missing,
                        std::string_view what);
/// A string whose bytes count as work.
TemplateValue counted_string(TemplateRun& run, std::string string);
/// The strings as a list.
TemplateValue strings_value(TemplateRun& run, const std::vector<std::string_view>& strings);

/// Strips the characters of the argument from both ends; white space if the argument is missing or
/// none.
TemplateValue stripped_value(TemplateRun& run, std::string_view string,
                             const TemplateValue* argument, StripSides sides);
/// The first `most` occurrences; all if there is no `most` or it is negative, as in Python.
TemplateValue replaced_value(TemplateRun& run, std::string_view text, const TemplateValue* from,
                             const TemplateValue* to, const TemplateValue* most);
/// At the first `most` separators; at all if there is no `most` or it is negative, as in Python.
/// Without a separator the words between white space.
TemplateValue split_value(TemplateRun& run, std::string_view text, const TemplateValue* separator,
                          const TemplateValue* most);
/// In upper or lower case. Error for a letter whose other case is not one letter (change_case).
TemplateValue with_case(TemplateRun& run, const TemplateValue& input, bool upper);
TemplateValue capitalized_value(TemplateRun& run, const TemplateValue& input);
/// The pairs of a dict.
std::vector<TemplateValue> items_of(TemplateRun& run, const TemplateValue& dict);

/// what in where
bool contains(TemplateRun& run, const TemplateValue& where, const TemplateValue& what);

/// The elements that a loop or the filter list sees: of a list, the keys of a dict, the characters
/// of a string; none of an undefined value.
std::vector<TemplateValue> elements_of(TemplateRun& run, const TemplateValue& value);

/// object[key]; undefined if there is none.
TemplateValue member_of(TemplateRun& run, const TemplateValue& object, const TemplateValue& key);
/// object.name: as Jinja, a method of that name before a member.
TemplateValue attribute_of(TemplateRun& run, const TemplateValue& object, const std::string& name);
/// The member that a path of keys and indices with dots leads to, as filters take it. `otherwise`
/// stands for what is undefined on the way, unless it is null.
TemplateValue member_at(TemplateRun& run, const TemplateValue& object, std::string_view path,
                        const TemplateValue* otherwise);
/// object[begin:end:step] of a string or a list; bounds that are null are the ends.
TemplateValue slice_of(TemplateRun& run, const TemplateValue& object, const TemplateValue* begin,
                       const TemplateValue* end, const TemplateValue* step);

}  // namespace gptrain
