// Python's strings, for chat templates. Texts are valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

enum class StripSides { both, left, right };

/// The text without the characters in `set` at its ends; an empty set is what Python calls white
/// space.
std::string_view strip_text(std::string_view text, std::string_view set, StripSides sides);

std::vector<std::string_view> characters_of(std::string_view text);

/// The text from character `begin` to before character `end`, both within it.
std::string_view cut_text(std::string_view text, std::int64_t begin, std::int64_t end);

/// Python's str.splitlines: the lines without their ends.
std::vector<std::string_view> lines_of(std::string_view text);

/// The words between white space: Python's str.split without a separator.
std::vector<std::string_view> words_of(std::string_view text);

/// Python's repr: in quotes, with escapes.
std::string quoted_text(std::string_view text);

/// Replaces & < > ' " by their names in HTML, as Jinja does.
std::string html_text(std::string_view text);

}  // namespace gptrain
