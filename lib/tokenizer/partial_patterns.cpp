#include "tokenizer/partial_patterns.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tokenizer/pattern_parts.h"
#include "tokenizer/text_walker.h"
#include "unicode/bert_text.h"

namespace gptrain {
namespace {

using Category = CharCategory;
using Next = CategoryWalker::Next;

constexpr CharSet any_letter = {Category::capital, Category::small, Category::caseless};
constexpr CharSet letters_and_marks = {Category::capital, Category::small, Category::caseless,
                                       Category::mark};
constexpr CharSet visible_signs = {Category::punctuation, Category::symbol};

/// The characters of a class such as "a-zA-Z_", without the brackets.
class CharClass {
public:
    explicit CharClass(std::string_view ranges) {
        while (!ranges.empty()) {
            const char32_t first = take(ranges);
            char32_t last = first;
            if (ranges.size() > 1 && ranges[0] == '-') {
                ranges.remove_prefix(1);
                last = take(ranges);
            }
            ranges_.emplace_back(first, last);
        }
        std::sort(ranges_.begin(), ranges_.end());
    }
    bool has(char32_t code) const {
        const auto found = std::ranges::lower_bound(ranges_, code, {}, &Range::second);
        return found != ranges_.end() && found->first <= code;
    }

private:
    using Range = std::pair<char32_t, char32_t>;

    static char32_t take(std::string_view& text) {
        const DecodedChar next = first_char(text);
        text.remove_prefix(next.bytes);
        return next.code;
    }
    std::vector<Range> ranges_;
};

/// The first run of characters that belong to a set, or that do not.
std::size_t run_piece(std::string_view text, const auto& belongs) {
    CategoryWalker walker(text);
    const bool inside = belongs(walker.next());
    walker.skip_while([&](const Next& character) { return belongs(character) == inside; });
    return walker.at();
}

/// The first match of a pattern, or the text before it. `match` returns the length of a match at
/// the beginning of a text, 0 without one, and looks at few characters in that case.
std::size_t match_or_gap(std::string_view text, const auto& match) {
    if (const std::size_t length = match(text); length > 0) return length;
    std::size_t at = first_char(text).bytes;
    while (at < text.size() && match(text.substr(at)) == 0)
        at += first_char(text.substr(at)).bytes;
    return at;
}

/// \s?[...]+, where `belongs` stands for the class.
std::size_t spaced_run_piece(std::string_view text, const auto& belongs) {
    return match_or_gap(text, [&](std::string_view rest) -> std::size_t {
        CategoryWalker walker(rest);
        const Next first = walker.next();
        if (!belongs(first)) {
            if (first.category != Category::space) return 0;
            walker.skip(first);
        }
        return walker.skip_while(belongs) ? walker.at() : 0;
    });
}

bool is_ascii_letter(const CategoryWalker& walker) {
    return !walker.at_end() && walker.next().code < 0x80 && any_letter.has(walker.next().category);
}

/// A match of DeepSeek V3's last pattern at the beginning of the text; 0: none.
std::size_t deepseek3_match(std::string_view text) {
    CategoryWalker walker(text);
    const Next first = walker.next();
    walker.skip(first);
    if (first.code < 0x80 && visible_signs.has(first.category) && is_ascii_letter(walker)) {
        while (is_ascii_letter(walker))
            walker.skip_char();
        return walker.at();
    }
    const bool newline = first.code == '\n' || first.code == '\r';
    if (!visible_signs.has(first.category) && !newline) {
        const bool is_word = letters_and_marks.has(first.category);
        if (walker.skip_run(letters_and_marks) || is_word) return walker.at();
    }
    CategoryWalker after_blank(text, first.code == ' ' ? 1 : 0);
    if (after_blank.skip_run(visible_signs)) {
        after_blank.skip_newlines();
        return after_blank.at();
    }
    if (first.category != Category::space) return 0;
    const std::size_t length = line_ends(text);
    return length > 0 ? length : blank_run(text);
}

/// Word characters as the pattern's \b has them.
bool is_boundary_word(char32_t code) {
    const bool is_joiner = code == 0x200C || code == 0x200D;
    const bool is_latin_number =
        CharCategories::instance().of(code) == Category::number && code < 0x100;
    return is_latin_number || (is_word_character(code) && !is_joiner);
}

}  // namespace

const std::string_view deepseek_letters =
    "A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF"
    "\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-"
    "\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-"
    "\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-"
    "\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC"
    "\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-"
    "\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-"
    "\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-"
    "\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-"
    "\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-"
    "\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-"
    "\U000118DF\U0001E900-\U0001E943";

std::size_t number_piece(std::string_view text) {
    CategoryWalker walker(text);
    constexpr CharSet numbers = {Category::number};
    if (!walker.is(numbers)) {
        walker.skip_run(~numbers);
        return walker.at();
    }
    for (int digits = 0; digits < 3 && walker.is(numbers); ++digits)
        walker.skip_char();
    return walker.at();
}

std::size_t kana_piece(std::string_view text) {
    return run_piece(text, [](const Next& character) {
        const char32_t code = character.code;
        return (code >= 0x4E00 && code <= 0x9FA5) || (code >= 0x3040 && code <= 0x30FF);
    });
}

std::size_t asian_piece(std::string_view text) {
    return run_piece(text, [](const Next& character) {
        const char32_t code = character.code;
        return (code >= 0x800 && code <= 0x9FA5) || (code >= 0xAC00 && code <= 0xD7FF);
    });
}

std::size_t deepseek3_piece(std::string_view text) {
    return match_or_gap(text, deepseek3_match);
}

std::size_t line_end_piece(std::string_view text) {
    if (text[0] == '\n' || text[0] == '\r') return 1;
    return std::min(text.find_first_of("\r\n"), text.size());
}

std::size_t last_blanks_piece(std::string_view text) {
    constexpr CharSet spaces = {Category::space};
    CategoryWalker walker(text);
    while (!walker.at_end()) {
        const std::size_t begin = walker.at();
        std::size_t line_end = begin;  // $ also matches before a line feed
        walker.skip_while([&](const Next& character) {
            if (!spaces.has(character.category)) return false;
            if (character.code == '\n' && walker.at() > begin) line_end = walker.at();
            return true;
        });
        const std::size_t end = walker.at_end() ? text.size() : line_end;
        if (end > begin) return begin == 0 ? end : begin;
        walker.skip_run(~spaces);
    }
    return text.size();
}

std::size_t spaced_letters_piece(std::string_view text) {
    return spaced_run_piece(
        text, [](const Next& character) { return any_letter.has(character.category); });
}

std::size_t spaced_punctuation_piece(std::string_view text) {
    return spaced_run_piece(
        text, [](const Next& character) { return character.category == Category::punctuation; });
}

std::size_t spaced_listed_letters_piece(std::string_view text) {
    static const CharClass listed(deepseek_letters);
    return spaced_run_piece(text, [](const Next& character) { return listed.has(character.code); });
}

std::size_t spaced_listed_signs_piece(std::string_view text) {
    static const CharClass listed("!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002");
    return spaced_run_piece(text, [](const Next& character) { return listed.has(character.code); });
}

std::size_t thousands_piece(std::string_view text) {
    const auto is_digit = [](const Next& character) { return is_decimal(character.code); };
    CategoryWalker walker(text);
    while (!walker.at_end()) {
        const std::size_t begin = walker.at();
        std::size_t digits = 0;
        walker.skip_while([&](const Next& character) {
            digits += is_digit(character) ? 1 : 0;
            return is_digit(character);
        });
        if (digits > 0 && (walker.at_end() || !is_boundary_word(walker.next().code))) {
            if (begin > 0) return begin;
            CategoryWalker group(text);
            for (std::size_t left = (digits - 1) % 3 + 1; left > 0; --left)
                group.skip_char();
            return group.at();
        }
        walker.skip_while([&](const Next& character) { return !is_digit(character); });
    }
    return text.size();
}

std::size_t bloom_piece(std::string_view text) {
    static const CharClass apart("(|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)");
    const auto belongs = [](const Next& character) {
        return character.category != Category::space && !apart.has(character.code);
    };
    return match_or_gap(text, [&](std::string_view rest) {
        CategoryWalker walker(rest, rest[0] == ' ' ? 1 : 0);
        return walker.skip_while(belongs) ? walker.at() : 0;
    });
}

std::size_t bert_piece(std::string_view text) {
    constexpr CharSet spaces = {Category::space};
    CategoryWalker walker(text);
    if (walker.skip_run(spaces)) return walker.at();
    walker.skip_while([spaces](const Next& character) {
        return !spaces.has(character.category) && !is_bert_punctuation(character.code);
    });
    if (walker.at() == 0) walker.skip_char();
    return walker.at();
}

}  // namespace gptrain
