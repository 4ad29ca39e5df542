#include "unicode/unicode.h"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>

#include "base/utf8.h"
#include "unicode/unicode_tables.h"

namespace gptrain {
namespace {

constexpr std::size_t code_points = 0x110000;

// Syllables of Hangul are composed by arithmetic (the Unicode standard, section 3.12).
constexpr char32_t hangul_first = 0xAC00, lead_first = 0x1100, vowel_first = 0x1161,
                   trail_before = 0x11A7;
constexpr char32_t leads = 19, vowels = 21, trails = 28;

std::uint64_t pair_of(char32_t first, char32_t second) {
    return std::uint64_t{first} << 32 | second;
}

/// The tables of normalization in the form that it needs.
class Normalizer {
public:
    Normalizer() : classes_(code_points), changes_(code_points), blocks_(std::size_t{256} * 256) {
        for (const CombiningRange& range : combining_ranges) {
            for (char32_t code = range.first; code <= range.last; ++code) {
                classes_[code] = static_cast<std::uint8_t>(range.combining_class);
                changes_[code] = true;
            }
        }
        for (const Decomposition& entry : composites) {
            parts_.emplace(entry.character, entry);
            composed_.emplace(pair_of(entry.first, entry.second), entry.character);
            changes_[entry.second] = true;
        }
        for (const Decomposition& entry : decomposed_only) {
            parts_.emplace(entry.character, entry);
            changes_[entry.character] = true;
        }
        for (char32_t i = 0; i < vowels; ++i)
            changes_[vowel_first + i] = true;
        for (char32_t i = 1; i < trails; ++i)
            changes_[trail_before + i] = true;
        std::string character;
        for (char32_t code = first_changed; code < code_points; ++code) {
            if (!changes_[code]) continue;
            character.clear();
            append_char(character, code);
            blocks_[block_of(character)] = true;
            leads_[static_cast<unsigned char>(character[0])] = true;
        }
    }

    static const Normalizer& instance() {
        static const Normalizer tables;
        return tables;
    }

    /// False if the character never changes, whatever precedes it.
    bool may_change(char32_t code) const { return code >= first_changed && changes_[code]; }
    /// False for a byte that begins no character that may change.
    bool leads_to_change(char byte) const { return leads_[static_cast<unsigned char>(byte)]; }
    /// False if the first character of a text, which is not ASCII, never changes.
    bool first_may_change(std::string_view text) const {
        return blocks_[block_of(text)] && may_change(first_char(text).code);
    }

    void decompose(char32_t code, std::u32string& out) const {
        if (code >= hangul_first && code < hangul_first + leads * vowels * trails) {
            const char32_t index = code - hangul_first;
            out += lead_first + index / (vowels * trails);
            out += vowel_first + index / trails % vowels;
            if (index % trails > 0) out += trail_before + index % trails;
            return;
        }
        const auto found = parts_.find(code);
        if (found == parts_.end()) {
            out += code;
            return;
        }
        decompose(found->second.first, out);
        if (found->second.second != 0) decompose(found->second.second, out);
    }

    /// Sorts each run of combining characters by class.
    void order(auto& text) const {
        const auto class_of = [this](const auto& one) { return classes_[code_of(one)]; };
        const auto is_mark = [&](const auto& one) { return class_of(one) != 0; };
        for (auto at = text.begin(); at != text.end();) {
            at = std::find_if(at, text.end(), is_mark);
            const auto end = std::find_if_not(at, text.end(), is_mark);
            std::stable_sort(
                at, end, [&](const auto& a, const auto& b) { return class_of(a) < class_of(b); });
            at = end;
        }
    }

    /// Composes what was decomposed and ordered, in place.
    void compose(std::u32string& text) const {
        std::size_t starter = text.size();  // none yet
        std::size_t kept = 0;
        int last_class = -1;  // of the last kept character after the starter; -1: there is none
        for (const char32_t code : text) {
            const int combining = classes_[code];
            if (starter < kept && last_class < combining) {
                if (const char32_t whole = composed(text[starter], code); whole != 0) {
                    text[starter] = whole;
                    continue;
                }
            }
            if (combining == 0) {
                starter = kept;
                last_class = -1;
            } else {
                last_class = combining;
            }
            text[kept++] = code;
        }
        text.resize(kept);
    }

private:
    /// 0 if the two do not compose.
    char32_t composed(char32_t first, char32_t second) const {
        if (first - lead_first < leads && second - vowel_first < vowels)
            return hangul_first + ((first - lead_first) * vowels + second - vowel_first) * trails;
        const char32_t index = first - hangul_first;
        if (index < leads * vowels * trails && index % trails == 0 &&
            second - trail_before - 1 < trails - 1) {
            return first + (second - trail_before);
        }
        const auto found = composed_.find(pair_of(first, second));
        return found == composed_.end() ? 0 : found->second;
    }

    static char32_t code_of(char32_t code) { return code; }
    static char32_t code_of(const PlacedChar& character) { return character.code; }

    static constexpr char32_t first_changed = 0x300;

    /// The number of a character's first two bytes of UTF-8.
    static std::size_t block_of(std::string_view character) {
        return std::size_t{static_cast<unsigned char>(character[0])} << 8 |
               static_cast<unsigned char>(character[1]);
    }

    std::vector<std::uint8_t> classes_;
    std::vector<bool> changes_;
    std::array<bool, 256> leads_{};
    std::vector<bool> blocks_;  ///< whether any character that begins with two bytes may change
    std::unordered_map<char32_t, Decomposition> parts_;
    std::unordered_map<std::uint64_t, char32_t> composed_;
};

/// Length of the text before the first character that may change.
std::size_t unchanged_length(std::string_view text, const Normalizer& tables) {
    std::size_t at = 0;
    while (at < text.size()) {
        if (!tables.leads_to_change(text[at])) {
            ++at;
            continue;
        }
        const std::string_view rest = text.substr(at);
        if (tables.first_may_change(rest)) break;
        at += first_char(rest).bytes;
    }
    return at;
}

/// Sets what stands for the characters of the ranges in a table of all characters.
void fill(auto* table, std::span<const CharRange> ranges, auto value) {
    for (const CharRange& range : ranges)
        std::fill(table + range.first, table + range.last + 1, value);
}

bool is_in(std::span<const CharRange> ranges, char32_t code) {
    const auto found = std::ranges::lower_bound(ranges, code, {}, &CharRange::last);
    return found != ranges.end() && found->first <= code;
}

/// 0 for a character whose other case is not one character in every context.
char32_t other_case(std::span<const CaseRange> ranges, char32_t code) {
    const auto found = std::ranges::lower_bound(ranges, code, {}, &CaseRange::last);
    if (found == ranges.end() || code < found->first || (code - found->first) % found->step != 0)
        return code;
    return found->delta == 0 ? 0 : code + static_cast<char32_t>(found->delta);
}

}  // namespace

void append_char(std::string& out, char32_t code) {
    const auto add = [&out](char32_t byte) { out += static_cast<char>(byte); };
    const auto add_tail = [add](char32_t bits) { add(0x80 | (bits & 0x3F)); };
    if (code < 0x80) return add(code);
    if (code < 0x800) {
        add(0xC0 | code >> 6);
    } else if (code < 0x10000) {
        add(0xE0 | code >> 12);
        add_tail(code >> 6);
    } else {
        add(0xF0 | code >> 18);
        add_tail(code >> 12);
        add_tail(code >> 6);
    }
    add_tail(code);
}

CharKinds::CharKinds() : kinds_(std::make_unique<CharKind[]>(code_points)) {
    fill(kinds_.get(), capitals, CharKind::letter);
    fill(kinds_.get(), smalls, CharKind::letter);
    fill(kinds_.get(), caseless, CharKind::letter);
    fill(kinds_.get(), numbers, CharKind::number);
    fill(kinds_.get(), spaces, CharKind::space);
}

CharCategories::CharCategories() : categories_(std::make_unique<CharCategory[]>(code_points)) {
    fill(categories_.get(), capitals, CharCategory::capital);
    fill(categories_.get(), smalls, CharCategory::small);
    fill(categories_.get(), caseless, CharCategory::caseless);
    fill(categories_.get(), marks, CharCategory::mark);
    fill(categories_.get(), numbers, CharCategory::number);
    fill(categories_.get(), punctuation, CharCategory::punctuation);
    fill(categories_.get(), symbols, CharCategory::symbol);
    fill(categories_.get(), spaces, CharCategory::space);
}

bool is_word_character(char32_t code) {
    switch (CharCategories::instance().of(code)) {
        case CharCategory::capital:
        case CharCategory::small:
        case CharCategory::caseless:
        case CharCategory::mark: return true;
        default: return is_in(word_others, code);
    }
}

bool is_decimal(char32_t code) {
    return CharCategories::instance().of(code) == CharCategory::number &&
           is_in(word_others, code) && !is_in(letter_numbers, code);
}

bool is_han(char32_t code) {
    return code >= han[0].first && is_in(han, code);
}

char32_t change_case(char32_t code, bool upper) {
    return other_case(upper ? std::span<const CaseRange>(upper_ranges) : lower_ranges, code);
}

std::u32string small_letter(char32_t code) {
    if (code == 0x130) return {U'i', 0x307};
    if (code == 0x3A3) return {0x3C3};  // within a word, whatever follows
    const char32_t small = other_case(lower_ranges, code);
    return {small != code ? small : other_case(newer_lower_ranges, code)};
}

bool is_old_control(char32_t code) {
    return is_in(old_controls, code);
}

bool is_old_mark(char32_t code) {
    return is_in(old_marks, code);
}

bool is_old_punctuation(char32_t code) {
    return is_in(old_punctuation, code);
}

std::vector<PlacedChar> decompose(const std::vector<PlacedChar>& text) {
    const Normalizer& tables = Normalizer::instance();
    std::vector<PlacedChar> result;
    std::u32string parts;
    for (const PlacedChar& character : text) {
        parts.clear();
        tables.decompose(character.code, parts);
        for (const char32_t part : parts)
            result.push_back({part, character.at});
    }
    tables.order(result);
    return result;
}

std::string_view normalize_nfc(std::string_view text, std::string& buffer,
                               std::vector<NormalizedPart>* parts) {
    const Normalizer& tables = Normalizer::instance();
    const char* const start = text.data();
    const auto note = [&](bool same) {
        if (parts == nullptr) return;
        parts->push_back({.begin = buffer.size(),
                          .original = static_cast<std::size_t>(text.data() - start),
                          .same = same});
    };
    std::size_t same = unchanged_length(text, tables);
    if (same == text.size()) return text;
    buffer.clear();
    if (parts != nullptr) parts->clear();
    std::u32string part;
    while (!text.empty()) {
        note(true);
        if (same == text.size()) {
            buffer += text;
            break;
        }
        // From the last character that surely starts a new sequence up to the next such character.
        const std::size_t begin = same == 0 ? 0 : character_start(text, same - 1);
        buffer += text.substr(0, begin);
        text.remove_prefix(begin);
        note(false);
        part.clear();
        for (bool first = true; !text.empty(); first = false) {
            const DecodedChar next = first_char(text);
            if (!first && !tables.may_change(next.code)) break;
            tables.decompose(next.code, part);
            text.remove_prefix(next.bytes);
        }
        tables.order(part);
        tables.compose(part);
        for (const char32_t code : part)
            append_char(buffer, code);
        same = unchanged_length(text, tables);
    }
    return buffer;
}

}  // namespace gptrain
