// Categories and normalization of characters (unicode_tables.h states the versions of Unicode).
// Texts are valid UTF-8.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unicode/char_kind.h"

namespace gptrain {

struct DecodedChar {
    char32_t code;
    std::size_t bytes;
};

/// The first character of a nonempty text.
inline DecodedChar first_char(std::string_view text) {
    const auto byte = [text](std::size_t i) -> char32_t {
        return static_cast<unsigned char>(text[i]);
    };
    const auto tail = [byte](std::size_t i) { return byte(i) & 0x3F; };
    const char32_t lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    if (lead < 0xE0) return {(lead & 0x1F) << 6 | tail(1), 2};
    if (lead < 0xF0) return {(lead & 0x0F) << 12 | tail(1) << 6 | tail(2), 3};
    return {(lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

void append_char(std::string& out, char32_t code);

/// One byte for each code point.
class CharKinds {
public:
    static const CharKinds& instance() {
        static const CharKinds kinds;
        return kinds;
    }
    CharKind of(char32_t code) const { return kinds_[code]; }

private:
    CharKinds();
    std::unique_ptr<CharKind[]> kinds_;
};

/// The categories of all characters, one byte for each code point.
class CharCategories {
public:
    static const CharCategories& instance() {
        static const CharCategories categories;
        return categories;
    }
    CharCategory of(char32_t code) const { return categories_[code]; }

private:
    CharCategories();
    std::unique_ptr<CharCategory[]> categories_;
};

/// True for what words consist of: letters, marks, decimal and letter numbers, connectors, joiners
/// (\w of Unicode's annex on regular expressions).
bool is_word_character(char32_t code);
/// True for decimal numbers (Nd).
bool is_decimal(char32_t code);
/// True for characters of the script Han.
bool is_han(char32_t code);

/// The character in upper or lower case, itself if it has none. 0 if that is not the same single
/// character in every context: "ß" becomes "SS", some letters have a separate title case, and the
/// small sigma has a form for the end of a word.
char32_t change_case(char32_t code, bool upper);

/// The small letter of a character in every context, itself if it has none; of two characters for
/// U+0130 alone.
std::u32string small_letter(char32_t code);

/// Control, format and private characters, nonspacing marks and punctuation of Unicode 8.0.
bool is_old_control(char32_t code);
bool is_old_mark(char32_t code);
bool is_old_punctuation(char32_t code);

/// A character, and where it comes from.
struct PlacedChar {
    char32_t code = 0;
    std::size_t at = 0;
};

/// Normalization form D.
std::vector<PlacedChar> decompose(const std::vector<PlacedChar>& text);

/// Where a part of a normalized text begins, and what it was made of.
struct NormalizedPart {
    std::size_t begin = 0;     ///< in the normalized text
    std::size_t original = 0;  ///< in the text before
    bool same = false;         ///< the bytes are those of the text before
};

/// The text in normalization form C: `text` itself if it is, else a view of `buffer`, which
/// receives it. `parts`, if given, is then filled with the parts in order.
std::string_view normalize_nfc(std::string_view text, std::string& buffer,
                               std::vector<NormalizedPart>* parts = nullptr);

}  // namespace gptrain
