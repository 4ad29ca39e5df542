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

}  // namespace gptrain
