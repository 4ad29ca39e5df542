// The parts that several patterns share. Texts are valid UTF-8; 0 means that there is no match.
#pragma once

#include <cstddef>
#include <string_view>

namespace gptrain {

/// Length of the contraction ('s, 've, ...) that the text begins with.
std::size_t contraction(std::string_view text, bool any_case);

/// \s+(?!\S)|\s+ of a text that begins with white space: the last white space before a word belongs
/// to the word, unless it is the only one.
std::size_t blank_run(std::string_view text);

/// \s*[\r\n]+ of a text: up to the last line end of the white space that it begins with.
std::size_t line_ends(std::string_view text);

}  // namespace gptrain
