#include "tokenizer/cased_patterns.h"

#include "tokenizer/pattern_parts.h"
#include "tokenizer/text_walker.h"

namespace gptrain {
namespace {

using Category = CharCategory;

constexpr CharSet letters = {Category::capital, Category::small, Category::caseless};
constexpr CharSet numbers = {Category::number};
constexpr CharSet head = {Category::capital, Category::caseless, Category::mark};
constexpr CharSet body = {Category::small, Category::caseless, Category::mark};
constexpr CharSet head_and_body = {Category::caseless, Category::mark};
constexpr CharSet not_in_words = {Category::other, Category::mark, Category::punctuation,
                                  Category::symbol, Category::space};
constexpr CharSet signs = {Category::other, Category::mark, Category::punctuation,
                           Category::symbol};
constexpr CharSet signs_without_marks = {Category::other, Category::punctuation, Category::symbol};

/// Where `head* body+` ends that begins at `begin`, else where `head+` does; `begin` if neither
/// matches. Sets `has_body` in the first case.
std::size_t end_of_letters(std::string_view text, std::size_t begin, bool han_apart,
                           bool& has_body) {
    const auto belongs = [han_apart](const CategoryWalker::Next& character, CharSet set) {
        return set.has(character.category) && !(han_apart && is_han(character.code));
    };
    CategoryWalker walker(text, begin);
    std::size_t last_shared = begin;  // the end of the last character that may also be of the body
    walker.skip_while([&](const CategoryWalker::Next& character) {
        if (!belongs(character, head)) return false;
        if (head_and_body.has(character.category)) last_shared = walker.at() + character.bytes;
        return true;
    });
    has_body = walker.skip_while(
        [&](const CategoryWalker::Next& character) { return belongs(character, body); });
    if (has_body || last_shared == begin) return walker.at();
    has_body = true;
    return last_shared;
}

/// [^\r\n\p{L}\p{N}]?head*body+|[^\r\n\p{L}\p{N}]?head+body* without contractions; 0: no match.
std::size_t cased_letters(std::string_view text, bool han_apart) {
    const CategoryWalker start(text);
    const CategoryWalker::Next first = start.next();
    bool has_body = false;
    if (letters.has(first.category)) return end_of_letters(text, 0, han_apart, has_body);
    if (numbers.has(first.category) || start.is_newline()) return 0;
    const std::size_t end = end_of_letters(text, first.bytes, han_apart, has_body);
    // A mark before capitals is a word by itself, because it can be the body of one.
    if (!has_body && first.category == Category::mark)
        return end_of_letters(text, 0, han_apart, has_body);
    return end > first.bytes ? end : 0;
}

std::size_t blanks(std::string_view text) {
    const std::size_t length = line_ends(text);
    return length > 0 ? length : blank_run(text);
}

/// ` ?[set]+[tail]*`; 0: no match.
std::size_t spaced_signs(std::string_view text, CharSet set, std::string_view tail) {
    CategoryWalker walker(text, text[0] == ' ' ? 1 : 0);
    if (!walker.skip_run(set)) return 0;
    walker.skip_any(tail);
    return walker.at();
}

}  // namespace

std::size_t cased_piece(std::string_view text, const CasedPattern& pattern) {
    CategoryWalker walker(text);
    if (pattern.han_apart && walker.skip_while([](const CategoryWalker::Next& character) {
            return is_han(character.code);
        }))
        return walker.at();
    if (std::size_t length = cased_letters(text, pattern.han_apart); length > 0) {
        if (pattern.contractions) length += contraction(text.substr(length), true);
        return length;
    }
    for (int digits = 0; digits < pattern.max_digits && walker.is(numbers); ++digits)
        walker.skip_char();
    if (walker.at() > 0) return walker.at();
    if (const std::size_t length = spaced_signs(text, signs, pattern.tail); length > 0)
        return length;
    return blanks(text);
}

std::size_t marked_piece(std::string_view text) {
    constexpr CharSet words = {Category::capital, Category::small, Category::caseless,
                               Category::mark};
    if (const std::size_t length = contraction(text, true); length > 0) return length;
    CategoryWalker walker(text);
    if (walker.is(numbers)) {
        walker.skip_char();
        return walker.at();
    }
    if (walker.is(not_in_words) && !walker.is_newline()) walker.skip_char();
    if (walker.skip_run(words) || CategoryWalker(text).is(words)) return walker.at();
    if (const std::size_t length = spaced_signs(text, signs_without_marks, "\r\n"); length > 0)
        return length;
    return blanks(text);
}

}  // namespace gptrain
