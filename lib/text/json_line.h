// Extracts one text from a line of JSON lines, about ten times faster than parsing the whole value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

enum class JsonText { found, missing, not_a_string };

/// Finds the string under `key` in the JSON object (RFC 8259, and the numbers NaN, Infinity and
/// -Infinity that Python writes) that makes up `line`, which must be UTF-8, and writes it,
/// unescaped, to `out`. Validates the whole line: bad syntax, a lone
/// surrogate, nesting above 64, bytes after the object, or a repeated `key` are Errors (bad_input)
/// that name the column (in bytes, from 1).
JsonText find_json_text(std::string_view line, std::string_view key, std::string& out);

/// The unescaped keys of the object whose values are strings, in order.
std::vector<std::string> json_text_keys(std::string_view line);

}  // namespace gptrain
