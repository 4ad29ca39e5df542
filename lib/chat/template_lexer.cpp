#include "chat/template_lexer.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "unicode/unicode.h"

namespace gptrain {
namespace {

using TokenKind = TemplateToken::Kind;

constexpr std::string_view white_space = " \t\n\r\v\f";
constexpr std::array<std::string_view, 6> two_characters = {"==", "!=", "<=", ">=", "//", "**"};
constexpr std::string_view one_character = "+-/*%~[](){}<>=.:|,";

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_one_of(char c, std::string_view characters) {
    return characters.find(c) != characters.npos;
}

bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// The text with line feeds as its only line ends, and without the last one.
std::string normalized(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool pair = text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
        if (pair) continue;
        out += text[i] == '\r' ? '\n' : text[i];
    }
    if (out.ends_with('\n')) out.pop_back();
    return out;
}

class Lexer {
public:
    Lexer(std::string_view text, const std::string& source)
        : whole_(normalized(text)), source_(source) {}

    std::vector<TemplateToken> tokens() {
        while (at_ < whole_.size()) {
            const std::size_t begin = next_opening();
            if (begin == whole_.npos) {
                add(TokenKind::text, whole_.substr(at_));
                move_to(whole_.size());
            } else {
                take_text_and_block(begin);
            }
        }
        add(TokenKind::end, "");
        return std::move(tokens_);
    }

private:
    std::string_view rest() const { return std::string_view(whole_).substr(at_); }

    [[noreturn]] void refuse(const auto&... parts) const {
        fail(ExitCode::bad_input, source_, ": line ", line_, ": ", parts...);
    }

    void add(TokenKind kind, std::string text) {
        if (kind == TokenKind::text && text.empty()) return;
        tokens_.push_back({kind, std::move(text), line_});
    }

    void move_to(std::size_t at) {
        line_ += std::count(whole_.begin() + static_cast<std::ptrdiff_t>(at_),
                            whole_.begin() + static_cast<std::ptrdiff_t>(at), '\n');
        at_ = at;
    }

    void skip_white_space() {
        const std::size_t next = whole_.find_first_not_of(white_space, at_);
        move_to(next == whole_.npos ? whole_.size() : next);
    }

    std::size_t next_opening() const {
        for (std::size_t at = whole_.find('{', at_); at != whole_.npos;
             at = whole_.find('{', at + 1))
            if (at + 1 < whole_.size() && is_one_of(whole_[at + 1], "{%#")) return at;
        return whole_.npos;
    }

    /// The text before an opening as far as its sign and the defaults leave it.
    std::string text_before(std::size_t begin, char sign, bool is_output) const {
        std::string text = whole_.substr(at_, begin - at_);
        if (sign == '-') {
            text.erase(text.find_last_not_of(white_space) + 1);
        } else if (sign != '+' && !is_output) {
            const std::size_t line_begin = text.rfind('\n') + 1;
            const bool starts_line = line_begin > 0 || after_newline_;
            if (starts_line && text.find_first_not_of(white_space, line_begin) == text.npos)
                text.erase(line_begin);
        }
        return text;
    }

    void take_text_and_block(std::size_t begin) {
        const char kind = whole_[begin + 1];
        const std::size_t after = begin + 2;
        const char sign = after < whole_.size() ? whole_[after] : ' ';
        const bool is_signed = sign == '-' || sign == '+';
        add(TokenKind::text, text_before(begin, sign, kind == '{'));
        move_to(after + (is_signed ? 1 : 0));
        if (kind == '#') return skip_comment();
        add(kind == '{' ? TokenKind::open_output : TokenKind::open_block, "");
        take_expression(kind == '{' ? "}}" : "%}");
    }

    /// Moves behind the end of a block, and behind what its sign and the defaults drop.
    void close(std::string_view end, char sign) {
        move_to(at_ + end.size());
        const std::size_t before = at_;
        if (sign == '-') {
            skip_white_space();
        } else if (sign != '+' && end != "}}" && rest().starts_with('\n')) {
            move_to(at_ + 1);
        }
        after_newline_ = at_ > before && whole_[at_ - 1] == '\n';
    }

    void skip_comment() {
        const std::size_t end = whole_.find("#}", at_);
        if (end == whole_.npos) refuse("a comment has no end '#}'");
        const char sign = end > at_ ? whole_[end - 1] : ' ';
        move_to(end);
        close("#}", sign);
    }

    void take_expression(std::string_view end) {
        const std::int64_t first_line = line_;
        std::int64_t open = 0;  // brackets
        while (true) {
            skip_white_space();
            const bool is_signed =
                rest().starts_with('-') || (rest().starts_with('+') && end != "}}");
            if (open == 0 && rest().substr(is_signed ? 1 : 0).starts_with(end)) {
                const char sign = is_signed ? whole_[at_++] : ' ';
                add(end == "}}" ? TokenKind::close_output : TokenKind::close_block, "");
                return close(end, sign);
            }
            if (at_ == whole_.size()) {
                line_ = first_line;
                refuse("a block has no end '", end, "'");
            }
            take_token();
            const TemplateToken& token = tokens_.back();
            if (token.kind != TokenKind::symbol) continue;
            if (is_one_of(token.text[0], "([{")) ++open;
            if (is_one_of(token.text[0], ")]}") && open > 0) --open;
        }
    }

    void take_token() {
        const char c = whole_[at_];
        if (c == '\'' || c == '"') return take_string(c);
        if (is_digit(c)) return take_number();
        std::size_t end = at_;
        if (is_name_start(c)) {
            while (end < whole_.size() && (is_digit(whole_[end]) || is_name_start(whole_[end])))
                ++end;
            return take(TokenKind::name, end);
        }
        for (const std::string_view symbol : two_characters)
            if (rest().starts_with(symbol)) return take(TokenKind::symbol, at_ + 2);
        if (is_one_of(c, one_character)) return take(TokenKind::symbol, at_ + 1);
        refuse("a character that no expression has: byte ", int{static_cast<unsigned char>(c)});
    }

    std::size_t skip_digits(std::size_t at) const {
        while (at < whole_.size() && is_digit(whole_[at]))
            ++at;
        return at;
    }

    bool is_digit_at(std::size_t at) const { return at < whole_.size() && is_digit(whole_[at]); }

    /// Digits, and what makes a real number of them: a point with digits, an exponent.
    void take_number() {
        const std::size_t whole_end = skip_digits(at_);
        std::size_t end = whole_end;
        const bool member = at_ > 0 && whole_[at_ - 1] == '.';  // of a.0.1
        if (!member && end < whole_.size() && whole_[end] == '.' && is_digit_at(end + 1))
            end = skip_digits(end + 1);
        if (!member && end < whole_.size() && is_one_of(whole_[end], "eE")) {
            const std::size_t sign = end + 1 < whole_.size() && is_one_of(whole_[end + 1], "+-");
            if (is_digit_at(end + 1 + sign)) end = skip_digits(end + 1 + sign);
        }
        const std::string_view word = std::string_view(whole_).substr(at_, end - at_);
        const bool is_real = end > whole_end;
        const bool ends = end == whole_.size() || !is_name_start(whole_[end]);
        const bool fits = is_real ? parse_double(word).has_value() : parse_int(word).has_value();
        if (!ends || !fits) refuse("'", word, "' does not begin a number of 64 bits");
        take(is_real ? TokenKind::real : TokenKind::integer, end);
    }

    void take(TokenKind kind, std::size_t end) {
        add(kind, whole_.substr(at_, end - at_));
        at_ = end;
    }

    void take_string(char quote) {
        std::string value;
        std::size_t at = at_ + 1;
        while (at < whole_.size() && whole_[at] != quote) {
            if (whole_[at] != '\\' || at + 1 >= whole_.size()) {
                value += whole_[at++];
            } else {
                at = take_escape(at + 1, value);
            }
        }
        if (at >= whole_.size()) refuse("a string has no end ", quote);
        add(TokenKind::string, std::move(value));
        move_to(at + 1);
    }

    /// Appends what the escape after a backslash stands for, as in Python; returns its end.
    std::size_t take_escape(std::size_t at, std::string& value) const {
        constexpr std::string_view letters = "\\'\"abfnrtv";
        constexpr std::string_view meanings = "\\'\"\a\b\f\n\r\t\v";
        const char c = whole_[at];
        if (c == '\n') return at + 1;
        const std::size_t digits = c == 'x' ? 2 : (c == 'u' ? 4 : (c == 'U' ? 8 : 0));
        if (digits > 0) return take_code(at + 1, digits, value);
        if (c >= '0' && c <= '7') refuse("octal escapes in strings are not supported");
        const std::size_t letter = letters.find(c);
        if (letter == letters.npos) {
            value += '\\';
            value += c;
        } else {
            value += meanings[letter];
        }
        return at + 1;
    }

    std::size_t take_code(std::size_t at, std::size_t digits, std::string& value) const {
        char32_t code = 0;
        for (std::size_t i = 0; i < digits; ++i) {
            const std::size_t digit =
                at + i < whole_.size()
                    ? std::string_view("0123456789abcdefABCDEF").find(whole_[at + i])
                    : std::string_view::npos;
            if (digit == std::string_view::npos) refuse("an escape in a string lacks digits");
            code = code * 16 + static_cast<char32_t>(digit < 16 ? digit : digit - 6);
        }
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
            refuse("an escape in a string names no character");
        append_char(value, code);
        return at + digits;
    }

    std::string whole_;
    const std::string& source_;
    std::vector<TemplateToken> tokens_;
    std::size_t at_ = 0;
    std::int64_t line_ = 1;
    bool after_newline_ = true;
};

}  // namespace

std::vector<TemplateToken> template_tokens(std::string_view text, const std::string& source) {
    return Lexer(text, source).tokens();
}

}  // namespace gptrain
