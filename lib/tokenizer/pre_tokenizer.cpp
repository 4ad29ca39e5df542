#include "tokenizer/pre_tokenizer.h"

#include "unicode/unicode.h"

namespace gptrain {
namespace {

constexpr std::string_view gpt2_pattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// The same as published with GPT-2.
constexpr std::string_view gpt2_long_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Walks a text character by character.
class Walker {
public:
    explicit Walker(std::string_view text) : text_(text) {}

    std::size_t at() const { return at_; }
    bool at_end() const { return at_ == text_.size(); }
    bool is(char wanted) const { return !at_end() && text_[at_] == wanted; }
    bool is_newline() const { return is('\n') || is('\r'); }
    bool is(CharKind kind) const { return !at_end() && next().kind == kind; }
    void skip_char() { at_ += next().bytes; }
    void skip_newlines() {
        while (is_newline())
            ++at_;
    }
    void skip_run(CharKind kind) {
        for (Next character; !at_end() && (character = next()).kind == kind;)
            at_ += character.bytes;
    }

private:
    struct Next {
        CharKind kind;
        std::size_t bytes;
    };

    Next next() const {
        const auto byte = static_cast<unsigned char>(text_[at_]);
        if (byte < 0x80) return {ascii_kinds[byte], 1};
        const DecodedChar character = first_char(text_.substr(at_));
        return {CharKinds::instance().of(character.code), character.bytes};
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

/// Length of the contraction ('s, 've, ...) that the text begins with; 0 if with none.
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

/// \s+(?!\S)|\s+ of a text that begins with white space: the last white space before a word belongs
/// to the word, unless it is the only one.
std::size_t blank_run(std::string_view text) {
    Walker walker(text);
    std::size_t last = 0;
    while (walker.is(CharKind::space)) {
        last = walker.at();
        walker.skip_char();
    }
    return walker.at_end() || last == 0 ? walker.at() : last;
}

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

/// \s*[\r\n]+ of a text that begins with white space: up to the last line end of its white space; 0
/// if there is none.
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

std::optional<Splitter> splitter_of(std::string_view pattern) {
    if (pattern == gpt2_pattern || pattern == gpt2_long_pattern) return Splitter::gpt2;
    if (pattern == llama3_pattern) return Splitter::llama3;
    if (pattern == qwen2_pattern) return Splitter::qwen2;
    return std::nullopt;
}

std::string_view pattern_of(Splitter splitter) {
    switch (splitter) {
        case Splitter::llama3: return llama3_pattern;
        case Splitter::qwen2: return qwen2_pattern;
        default: return gpt2_pattern;
    }
}

std::size_t first_piece(Splitter splitter, std::string_view text) {
    switch (splitter) {
        case Splitter::gpt2: return gpt2_piece(text);
        case Splitter::llama3: return llama3_piece(text, 3);
        case Splitter::qwen2: return llama3_piece(text, 1);
        case Splitter::single_digits: return digits_piece(text, true);
        case Splitter::digit_runs: return digits_piece(text, false);
    }
    return text.size();
}

}  // namespace gptrain
