#include "unicode/bert_text.h"

#include <utility>

namespace gptrain {
namespace {

bool is_blank(char32_t code) {
    return CharKinds::instance().of(code) == CharKind::space;
}

/// The ideographs of CJK, which BERT's vocabularies have one by one.
bool is_chinese(char32_t code) {
    constexpr std::pair<char32_t, char32_t> blocks[] = {
        {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
        {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
    for (const auto& [first, last] : blocks)
        if (code >= first && code <= last) return true;
    return false;
}

/// A character as it remains, before accents and case.
void add_clean(std::vector<PlacedChar>& out, PlacedChar character, const BertRules& rules) {
    if (rules.clean_text) {
        const char32_t code = character.code;
        const bool is_line_or_tab = code == '\t' || code == '\n' || code == '\r';
        if (!is_line_or_tab && (code == 0xFFFD || is_old_control(code))) return;
        if (is_blank(code)) character.code = ' ';
    }
    const bool apart = rules.handle_chinese_chars && is_chinese(character.code);
    if (apart) out.push_back({' ', character.at});
    out.push_back(character);
    if (apart) out.push_back({' ', character.at});
}

std::vector<PlacedChar> in_lower_case(const std::vector<PlacedChar>& text) {
    std::vector<PlacedChar> result;
    for (const PlacedChar& character : text)
        for (const char32_t code : small_letter(character.code))
            result.push_back({code, character.at});
    return result;
}

}  // namespace

std::string_view normalize_bert(std::string_view text, const BertRules& rules, std::string& buffer,
                                std::vector<NormalizedPart>* parts) {
    std::vector<PlacedChar> characters;
    for (std::size_t at = 0; at < text.size();) {
        const DecodedChar next = first_char(text.substr(at));
        add_clean(characters, {next.code, at}, rules);
        at += next.bytes;
    }
    if (rules.strip_accents) {
        characters = decompose(characters);
        std::erase_if(characters,
                      [](const PlacedChar& character) { return is_old_mark(character.code); });
    }
    if (rules.lowercase) characters = in_lower_case(characters);
    buffer.clear();
    if (parts != nullptr) parts->clear();
    for (const PlacedChar& character : characters) {
        if (parts != nullptr) parts->push_back({buffer.size(), character.at, false});
        append_char(buffer, character.code);
    }
    return buffer;
}

bool is_bert_punctuation(char32_t code) {
    if (code >= 0x80) return is_old_punctuation(code);
    const CharCategory category = ascii_categories[code];
    return category == CharCategory::punctuation || category == CharCategory::symbol;
}

}  // namespace gptrain
