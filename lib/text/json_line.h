// One text out of one line of JSON lines, an order of magnitude faster than building the whole
// value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

enum class JsonText { found, missing, not_a_string };

/// Looks up the string under `key` in the JSON object (RFC 8259) that takes up all of `line`, which
/// must be UTF-8, and writes it to `out`, escapes decoded. The whole line is checked: bad syntax, a
/// lone surrogate, nesting above 64, bytes behind the object, or `key` twice in the object are
/// Errors (bad_input) that name the column (in bytes, from 1).
JsonText find_json_text(std::string_view line, std::string_view key, std::string& out);

/// The keys of the object in such a line whose values are strings, in their order, escapes decoded.
std::vector<std::string> json_text_keys(std::string_view line);

}  // namespace gptrain
