// What a character is to the patterns that split text into words.
#pragma once

#include <cstdint>

namespace gptrain {

/// \p{L}, \p{N} and \s of regular expressions.
enum class CharKind : std::uint8_t { other, letter, number, space };

}  // namespace gptrain
