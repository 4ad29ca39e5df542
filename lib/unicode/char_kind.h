// The kinds and categories of characters for the patterns that split text into words.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

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

/// General categories, as far as patterns distinguish them.
enum class CharCategory : std::uint8_t {
    other,        ///< control, format, private and unassigned characters
    capital,      ///< Lu, Lt
    small,        ///< Ll
    caseless,     ///< Lm, Lo
    mark,         ///< M
    number,       ///< N
    punctuation,  ///< P
    symbol,       ///< S
    space,        ///< \s, some of which are separators (Z) and some control characters
};

/// The categories of the characters below 0x80.
constexpr std::array<CharCategory, 128> ascii_categories = [] {
    std::array<CharCategory, 128> categories{};
    for (unsigned char code = '!'; code <= '~'; ++code)
        categories[code] = CharCategory::punctuation;
    for (const char symbol : {'$', '+', '<', '=', '>', '^', '`', '|', '~'})
        categories[static_cast<unsigned char>(symbol)] = CharCategory::symbol;
    for (unsigned char code = 0; code < 128; ++code) {
        if (ascii_kinds[code] == CharKind::space) categories[code] = CharCategory::space;
        if (ascii_kinds[code] == CharKind::number) categories[code] = CharCategory::number;
        if (ascii_kinds[code] == CharKind::letter)
            categories[code] = code < 'a' ? CharCategory::capital : CharCategory::small;
    }
    return categories;
}();

/// A set of categories.
class CharSet {
public:
    constexpr CharSet(std::initializer_list<CharCategory> categories) {
        for (const CharCategory category : categories)
            bits_ = static_cast<std::uint16_t>(bits_ | bit(category));
    }
    constexpr bool has(CharCategory category) const { return (bits_ & bit(category)) != 0; }
    /// All other categories.
    constexpr CharSet operator~() const {
        CharSet others{};
        others.bits_ = static_cast<std::uint16_t>(~bits_);
        return others;
    }

private:
    static constexpr std::uint16_t bit(CharCategory category) {
        return static_cast<std::uint16_t>(1u << static_cast<unsigned>(category));
    }
    std::uint16_t bits_ = 0;
};

}  // namespace gptrain
