// UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gptrain {

enum class Utf8 { valid, invalid, incomplete };

struct Utf8Step {
    Utf8 kind;
    std::size_t bytes;
};

/// The first character of a nonempty text. `bytes` is its length if valid, 1 if invalid, or all
/// remaining bytes if more could complete the character.
Utf8Step utf8_step(std::string_view text);

/// Position of the first byte that is not part of a valid character, or npos.
std::size_t find_invalid_utf8(std::string_view text);

// Of valid UTF-8:

/// True for the first byte of a character.
constexpr bool begins_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

/// The start of the character that has the byte at `at`.
constexpr std::size_t character_start(std::string_view text, std::size_t at) {
    while (at > 0 && !begins_character(text[at]))
        --at;
    return at;
}

std::int64_t count_characters(std::string_view text);

/// U+FFFD, which replaces a byte that is not part of a character.
constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

}  // namespace gptrain
