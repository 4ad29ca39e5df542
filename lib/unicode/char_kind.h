// The kinds of characters for the patterns that split text into words.
#pragma once

#include <array>
#include <cstdint>

namespace gptrain {

/// \p{L}, \p{N} and \s of regular expressions.
enum class CharKind : std::uint8_t { other, letter, number, space };

/// The kinds of the characters below 0x80.
constexpr std::array<CharKind, 128> ascii_kinds = [] {
    std::array<CharKind, 128> kinds{};
    const auto set = [&kinds](unsigned char first, unsigned char last, CharKind kind) {
        for (unsigned char code = first; code <= last; ++code)
            kinds[code] = kind;
    };
    set('\t', '\r', CharKind::space);
    set(' ', ' ', CharKind::space);
    set('0', '9', CharKind::number);
    set('A', 'Z', CharKind::letter);
    set('a', 'z', CharKind::letter);
    return kinds;
}();

}  // namespace gptrain
