// Patterns that tell capitals, small letters and marks apart.
#pragma once

#include <cstddef>
#include <string_view>

namespace gptrain {

/// How the patterns of this family differ.
struct CasedPattern {
    int max_digits = 3;
    bool contractions = true;         ///< belong to the word before them
    bool han_apart = false;           ///< words of Han are separate
    std::string_view tail = "\r\n/";  ///< which may follow punctuation
};

/// Length of the first piece of a nonempty text, for a pattern like that of o200k.
std::size_t cased_piece(std::string_view text, const CasedPattern& pattern);

/// The same for the pattern of Qwen 3.5, which has marks in words and single digits.
std::size_t marked_piece(std::string_view text);

}  // namespace gptrain
