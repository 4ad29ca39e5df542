#include "text/json_line.h"

#include <charconv>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace gptrain {
namespace {

constexpr int max_depth = 64;

void append_utf8(std::string& out, std::uint32_t code) {
    const auto tail = [code](int shift) {
        return static_cast<char>(0x80 | (code >> shift & 0x3F));
    };
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += {static_cast<char>(0xC0 | code >> 6), tail(0)};
    } else if (code < 0x10000) {
        out += {static_cast<char>(0xE0 | code >> 12), tail(6), tail(0)};
    } else {
        out += {static_cast<char>(0xF0 | code >> 18), tail(12), tail(6), tail(0)};
    }
}

/// Index of the first character, from `at` on, that ends plain string text: a quote, a backslash or
/// a control character; the line's size if there is none.
std::size_t find_not_plain(std::string_view line, std::size_t at) {
    constexpr std::uint64_t each = 0x0101010101010101u;
    // Sets the high bit of bytes below `limit`; correct up to and including the first such byte.
    const auto below = [](std::uint64_t bytes, std::uint64_t limit) {
        return (bytes - each * limit) & ~bytes & each * 0x80;
    };
    for (; line.size() - at >= sizeof each; at += sizeof each) {
        std::uint64_t bytes = 0;
        std::memcpy(&bytes, line.data() + at, sizeof bytes);
        if ((below(bytes, 0x20) | below(bytes ^ each * '"', 1) | below(bytes ^ each * '\\', 1)) !=
            0) {
            break;
        }
    }
    const auto is_plain = [](char c) {
        return c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20;
    };
    while (at < line.size() && is_plain(line[at]))
        ++at;
    return at;
}

class Scanner {
public:
    explicit Scanner(std::string_view line) : line_(line) {}

    JsonText find(std::string_view key, std::string& out) {
        JsonText result = JsonText::missing;
        whole_object([&](const std::string& name) {
            if (name != key) {
                value(1);
                return;
            }
            if (result != JsonText::missing) refuse(text("the key '", key, "' occurs twice"));
            result = peek() == '"' ? JsonText::found : JsonText::not_a_string;
            if (result == JsonText::found) {
                string(&out);
            } else {
                value(1);
            }
        });
        return result;
    }

    std::vector<std::string> text_keys() {
        std::vector<std::string> keys;
        whole_object([&](const std::string& name) {
            if (peek() == '"') keys.push_back(name);
            value(1);
        });
        return keys;
    }

private:
    [[noreturn]] void refuse(std::string_view why) const {
        fail(ExitCode::bad_input, "column ", at_ + 1, ": ", why);
    }

    /// NUL at the end of the line, where it matches no rule.
    char peek() const { return at_ < line_.size() ? line_[at_] : '\0'; }

    void skip_blanks() {
        while (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n')
            ++at_;
    }

    void expect(char c, std::string_view why) {
        if (peek() != c) refuse(at_ < line_.size() ? why : "the line ends inside the JSON object");
        ++at_;
    }

    /// Parses the whole line and calls `member(name)` at the start of each value of its object.
    template <class Member>
    void whole_object(Member member) {
        skip_blanks();
        if (peek() != '{') refuse("must be a JSON object");
        members(member);
        skip_blanks();
        if (at_ != line_.size()) refuse("unexpected data after the JSON object");
    }

    /// Parses an object and calls `member(name)` at the start of each value.
    template <class Member>
    void members(Member member) {
        expect('{', "'{' expected");
        skip_blanks();
        if (peek() == '}') {
            ++at_;
            return;
        }
        std::string name;
        while (true) {
            string(&name);
            skip_blanks();
            expect(':', "':' expected");
            skip_blanks();
            member(name);
            skip_blanks();
            if (peek() == '}') break;
            expect(',', "',' or '}' expected");
            skip_blanks();
        }
        ++at_;
    }

    void elements(int depth) {
        expect('[', "'[' expected");
        skip_blanks();
        if (peek() == ']') {
            ++at_;
            return;
        }
        while (true) {
            value(depth);
            skip_blanks();
            if (peek() == ']') break;
            expect(',', "',' or ']' expected");
            skip_blanks();
        }
        ++at_;
    }

    /// Skips a value inside `depth` objects and arrays.
    void value(int depth) {
        if (depth > max_depth) refuse(text("nested deeper than ", max_depth, " levels"));
        switch (peek()) {
            case '"': string(nullptr); break;
            case '{': members([&](const std::string&) { value(depth + 1); }); break;
            case '[': elements(depth + 1); break;
            case 't': word("true"); break;
            case 'f': word("false"); break;
            case 'n': word("null"); break;
            case 'N': word("NaN"); break;
            default: number();
        }
    }

    void word(std::string_view literal) {
        if (!line_.substr(at_).starts_with(literal)) refuse("expected a value");
        at_ += literal.size();
    }

    void number() {
        if (peek() == '-') ++at_;
        if (peek() == 'I') return word("Infinity");
        const std::size_t begin = at_;
        digits("expected a value");
        if (line_[begin] == '0' && at_ - begin > 1) refuse("a number has a leading zero");
        if (peek() == '.') {
            ++at_;
            digits("expected a digit");
        }
        if (peek() == 'e' || peek() == 'E') {
            ++at_;
            if (peek() == '+' || peek() == '-') ++at_;
            digits("expected a digit");
        }
    }

    void digits(std::string_view why) {
        const std::size_t begin = at_;
        while (peek() >= '0' && peek() <= '9')
            ++at_;
        if (at_ == begin) refuse(why);
    }

    /// Parses a string; stores its text in `out` unless that is null.
    void string(std::string* out) {
        expect('"', "'\"' expected");
        if (out != nullptr) out->clear();
        while (true) {
            const std::size_t begin = at_;
            at_ = find_not_plain(line_, at_);
            if (out != nullptr) out->append(line_, begin, at_ - begin);
            if (at_ == line_.size()) refuse("the line ends inside a string");
            if (line_[at_] == '"') break;
            if (line_[at_] != '\\') refuse("a control character inside a string");
            ++at_;
            escape(out);
        }
        ++at_;
    }

    void escape(std::string* out) {
        constexpr std::string_view names = "\"\\/bfnrt";
        constexpr std::string_view characters = "\"\\/\b\f\n\r\t";
        if (peek() == 'u') {
            const std::uint32_t code = unicode_escape();
            if (out != nullptr) append_utf8(*out, code);
            return;
        }
        const std::size_t which = at_ < line_.size() ? names.find(line_[at_]) : names.npos;
        if (which == names.npos) refuse("an unknown escape");
        if (out != nullptr) *out += characters[which];
        ++at_;
    }

    std::uint32_t unicode_escape() {
        const std::uint32_t high = four_hex_digits();
        if (high < 0xD800 || high > 0xDFFF) return high;
        const bool pair = high < 0xDC00 && line_.substr(at_).starts_with("\\u");
        if (!pair) refuse("a lone surrogate");
        ++at_;
        const std::uint32_t low = four_hex_digits();
        if (low < 0xDC00 || low > 0xDFFF) refuse("a lone surrogate");
        return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }

    /// The four digits after the 'u' at the current position.
    std::uint32_t four_hex_digits() {
        const std::string_view digits = line_.substr(at_ + 1, 4);
        std::uint32_t code = 0;
        const char* end = digits.data() + digits.size();
        if (digits.size() < 4 || std::from_chars(digits.data(), end, code, 16).ptr != end) {
            refuse("expected four hexadecimal digits after \\u");
        }
        at_ += 5;
        return code;
    }

    std::string_view line_;
    std::size_t at_ = 0;
};

}  // namespace

JsonText find_json_text(std::string_view line, std::string_view key, std::string& out) {
    return Scanner(line).find(key, out);
}

std::vector<std::string> json_text_keys(std::string_view line) {
    return Scanner(line).text_keys();
}

}  // namespace gptrain
