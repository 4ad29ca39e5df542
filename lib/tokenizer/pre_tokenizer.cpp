#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <climits>

#include "tokenizer/cased_patterns.h"
#include "tokenizer/partial_patterns.h"
#include "tokenizer/pattern_parts.h"
#include "tokenizer/space_marks.h"
#include "tokenizer/text_walker.h"

namespace gptrain {

std::size_t contraction(std::string_view text, bool any_case) {
    constexpr std::string_view long_s = "\xC5\xBF";  // U+017F, of which S is the upper case
    if (text.size() < 2 || text[0] != '\'') return 0;
    if (any_case && text.substr(1).starts_with(long_s)) return 1 + long_s.size();
    const auto letter = [text, any_case](std::size_t at) {
        const char found = at < text.size() ? text[at] : '\0';
        return any_case && found >= 'A' && found <= 'Z' ? static_cast<char>(found + 32) : found;
    };
    switch (letter(1)) {
        case 's':
        case 't':
        case 'm':
        case 'd': return 2;
        case 'l': return letter(2) == 'l' ? 3 : 0;
        case 'v':
        case 'r': return letter(2) == 'e' ? 3 : 0;
        default: return 0;
    }
}

std::size_t blank_run(std::string_view text) {
    Walker walker(text);
    std::size_t last = 0;
    while (walker.is(CharKind::space)) {
        last = walker.at();
        walker.skip_char();
    }
    return walker.at_end() || last == 0 ? walker.at() : last;
}

std::size_t line_ends(std::string_view text) {
    Walker walker(text);
    std::size_t end = 0;
    while (walker.is(CharKind::space)) {
        const bool newline = walker.is_newline();
        walker.skip_char();
        if (newline) end = walker.at();
    }
    return end;
}

namespace {

std::size_t gpt2_piece(std::string_view text) {
    if (const std::size_t length = contraction(text, false); length > 0) return length;
    Walker walker(text);
    if (walker.is(' ')) walker.skip_char();
    for (const CharKind kind : {CharKind::letter, CharKind::number, CharKind::other}) {
        if (!walker.is(kind)) continue;
        walker.skip_run(kind);
        return walker.at();
    }
    return blank_run(text);
}

/// [^\r\n\p{L}\p{N}]?\p{L}+; 0 if there is none.
std::size_t prefixed_letters(std::string_view text) {
    Walker walker(text);
    if (!walker.is(CharKind::letter)) {
        if (walker.is(CharKind::number) || walker.is_newline()) return 0;
        walker.skip_char();
        if (!walker.is(CharKind::letter)) return 0;
    }
    walker.skip_run(CharKind::letter);
    return walker.at();
}

/// The patterns of Llama 3 and Qwen2, which differ in the digits of a piece.
std::size_t llama3_piece(std::string_view text, int max_digits) {
    if (const std::size_t length = contraction(text, true); length > 0) return length;
    if (const std::size_t length = prefixed_letters(text); length > 0) return length;
    Walker walker(text);
    if (walker.is(CharKind::number)) {
        for (int digits = 0; digits < max_digits && walker.is(CharKind::number); ++digits)
            walker.skip_char();
        return walker.at();
    }
    if (walker.is(' ')) walker.skip_char();
    if (walker.is(CharKind::other)) {
        walker.skip_run(CharKind::other);
        walker.skip_newlines();
        return walker.at();
    }
    if (const std::size_t length = line_ends(text); length > 0) return length;
    return blank_run(text);
}

/// As llama3_piece with one digit, except that line ends never follow punctuation.
std::size_t seed_piece(std::string_view text) {
    const std::size_t length = llama3_piece(text, 1);
    Walker walker(text);
    if (walker.is(' ')) walker.skip_char();
    if (!walker.is(CharKind::other)) return length;
    return text.substr(0, length).find_last_not_of("\r\n") + 1;
}

/// Up to the next U+2581; with `runs`, up to one that follows another character.
std::size_t mark_piece(std::string_view text, bool runs) {
    std::size_t at = text.starts_with(space_mark) ? space_mark.size() : 0;
    while (runs && text.substr(at).starts_with(space_mark))
        at += space_mark.size();
    return std::min(text.find(space_mark, at), text.size());
}

std::size_t digits_piece(std::string_view text, bool single) {
    Walker walker(text);
    const bool number = walker.is(CharKind::number);
    if (number && single) {
        walker.skip_char();
        return walker.at();
    }
    while (!walker.at_end() && walker.is(CharKind::number) == number)
        walker.skip_char();
    return walker.at();
}

}  // namespace

std::size_t first_piece(Splitter splitter, std::string_view text) {
    switch (splitter) {
        case Splitter::gpt2: return gpt2_piece(text);
        case Splitter::llama3: return llama3_piece(text, 3);
        case Splitter::qwen2: return llama3_piece(text, 1);
        case Splitter::qwen35: return marked_piece(text);
        case Splitter::minicpm: return llama3_piece(text, INT_MAX);
        case Splitter::seed: return seed_piece(text);
        case Splitter::o200k: return cased_piece(text, {});
        case Splitter::tekken: return cased_piece(text, {.max_digits = 1, .contractions = false});
        case Splitter::kimi: return cased_piece(text, {.han_apart = true, .tail = "\r\n"});
        case Splitter::numbers: return number_piece(text);
        case Splitter::thousands: return thousands_piece(text);
        case Splitter::kana: return kana_piece(text);
        case Splitter::asian: return asian_piece(text);
        case Splitter::deepseek3: return deepseek3_piece(text);
        case Splitter::line_ends: return line_end_piece(text);
        case Splitter::last_blanks: return last_blanks_piece(text);
        case Splitter::spaced_letters: return spaced_letters_piece(text);
        case Splitter::spaced_punctuation: return spaced_punctuation_piece(text);
        case Splitter::spaced_listed_letters: return spaced_listed_letters_piece(text);
        case Splitter::spaced_listed_signs: return spaced_listed_signs_piece(text);
        case Splitter::bloom: return bloom_piece(text);
        case Splitter::single_digits: return digits_piece(text, true);
        case Splitter::digit_runs: return digits_piece(text, false);
        case Splitter::marked_words: return mark_piece(text, true);
        case Splitter::each_mark: return mark_piece(text, false);
        case Splitter::bert: return bert_piece(text);
    }
    return text.size();
}

}  // namespace gptrain
