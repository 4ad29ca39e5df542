#include "chat/template_strings.h"

#include "base/utf8.h"
#include "unicode/unicode.h"

namespace gptrain {
namespace {

/// str.isspace
bool is_python_space(char32_t code) {
    return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 ||
           code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool ends_line(char32_t code) {
    return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

/// str.isprintable, for all characters that are assigned.
bool is_printable(char32_t code) {
    const auto within = [code](char32_t first, char32_t last) {
        return code >= first && code <= last;
    };
    if (code < 0x80) return code >= 0x20 && code != 0x7F;
    const bool control = within(0x80, 0x9F) || code == 0xAD || within(0x600, 0x605) ||
                         code == 0x61C || code == 0x6DD || code == 0x70F || code == 0x180E ||
                         within(0x200B, 0x200F) || within(0x202A, 0x202E) ||
                         within(0x2060, 0x206F) || code == 0xFEFF || within(0xFFF9, 0xFFFB) ||
                         within(0xE0000, 0xE0FFF);
    const bool foreign = within(0xE000, 0xF8FF) || within(0xF0000, 0x10FFFF) ||
                         (code & 0xFFFE) == 0xFFFE || within(0xFDD0, 0xFDEF);
    return !control && !foreign && !is_python_space(code);
}

void append_hex(std::string& out, char32_t code) {
    constexpr std::string_view digits = "0123456789abcdef";
    const int count = code < 0x100 ? 2 : (code < 0x10000 ? 4 : 8);
    out += code < 0x100 ? "\\x" : (code < 0x10000 ? "\\u" : "\\U");
    for (int place = count - 1; place >= 0; --place)
        out += digits[(code >> (4 * place)) & 15];
}

}  // namespace

std::string_view strip_text(std::string_view text, std::string_view set, StripSides sides) {
    const auto goes = [&](std::string_view character) {
        return set.empty() ? is_python_space(first_char(character).code)
                           : set.find(character) != set.npos;
    };
    while (sides != StripSides::right && !text.empty()) {
        const std::string_view first = text.substr(0, first_char(text).bytes);
        if (!goes(first)) break;
        text.remove_prefix(first.size());
    }
    while (sides != StripSides::left && !text.empty()) {
        const std::string_view last = text.substr(character_start(text, text.size() - 1));
        if (!goes(last)) break;
        text.remove_suffix(last.size());
    }
    return text;
}

std::vector<std::string_view> characters_of(std::string_view text) {
    std::vector<std::string_view> characters;
    while (!text.empty()) {
        characters.push_back(text.substr(0, first_char(text).bytes));
        text.remove_prefix(characters.back().size());
    }
    return characters;
}

std::string_view cut_text(std::string_view text, std::int64_t begin, std::int64_t end) {
    if (begin >= end) return "";
    std::size_t bytes = 0;
    std::size_t first = 0;
    for (std::int64_t at = 0; at < end; ++at) {
        if (at == begin) first = bytes;
        bytes += first_char(text.substr(bytes)).bytes;
    }
    return text.substr(first, bytes - first);
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
        const DecodedChar next = first_char(text.substr(at));
        const std::size_t end = at;
        at += next.bytes;
        if (!ends_line(next.code)) continue;
        if (next.code == '\r' && at < text.size() && text[at] == '\n') ++at;
        lines.push_back(text.substr(begin, end - begin));
        begin = at;
    }
    if (begin < text.size()) lines.push_back(text.substr(begin));
    return lines;
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    text = strip_text(text, "", StripSides::left);
    while (!text.empty()) {
        std::size_t end = 0;
        while (end < text.size() && !is_python_space(first_char(text.substr(end)).code))
            end += first_char(text.substr(end)).bytes;
        words.push_back(text.substr(0, end));
        text = strip_text(text.substr(end), "", StripSides::left);
    }
    return words;
}

std::string quoted_text(std::string_view text) {
    const bool single = text.find('\'') == text.npos || text.find('"') != text.npos;
    const char quote = single ? '\'' : '"';
    std::string out(1, quote);
    for (const std::string_view character : characters_of(text)) {
        const char32_t code = first_char(character).code;
        const std::size_t named = std::string_view("\n\r\t").find(character);
        if (named != std::string_view::npos) {
            out += '\\';
            out += "nrt"[named];
        } else if (code == '\\' || code == static_cast<char32_t>(quote)) {
            out += '\\';
            out += character;
        } else if (is_printable(code)) {
            out += character;
        } else {
            append_hex(out, code);
        }
    }
    return out + quote;
}

std::string html_text(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '\'': out += "&#39;"; break;
            case '"': out += "&#34;"; break;
            default: out += c;
        }
    }
    return out;
}

}  // namespace gptrain
