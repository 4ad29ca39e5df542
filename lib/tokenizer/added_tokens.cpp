#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"
#include "unicode/unicode.h"

namespace gptrain {
namespace {

/// The byte at `depth` of a token; -1 after its end, which sorts first.
int byte_at(const std::string& token, std::size_t depth) {
    return depth < token.size() ? static_cast<unsigned char>(token[depth]) : -1;
}

bool is_space(char32_t code) {
    return CharKinds::instance().of(code) == CharKind::space;
}

/// The last character of a nonempty text.
DecodedChar last_char(std::string_view text) {
    return first_char(text.substr(character_start(text, text.size() - 1)));
}

std::size_t blanks_at_start(std::string_view text) {
    std::size_t length = 0;
    while (length < text.size() && is_space(first_char(text.substr(length)).code))
        length += first_char(text.substr(length)).bytes;
    return length;
}

std::size_t blanks_at_end(std::string_view text) {
    const std::size_t size = text.size();
    while (!text.empty() && is_space(last_char(text).code))
        text.remove_suffix(last_char(text).bytes);
    return size - text.size();
}

}  // namespace

AddedTokens::AddedTokens(std::vector<SpelledToken> tokens) : tokens_(std::move(tokens)) {
    std::ranges::sort(tokens_, {}, [](const SpelledToken& token) {
        return std::pair<std::string_view, std::int32_t>(token.text, token.id);
    });
    for (const SpelledToken& token : tokens_) {
        if (first_bytes_.empty() || first_bytes_.back() != token.text.front())
            first_bytes_ += token.text.front();
        has_rules_ |= token.single_word || token.lstrip || token.rstrip;
    }
}

AddedTokens::Found AddedTokens::find(std::string_view text, std::size_t from) const {
    while (true) {
        const std::size_t at = first_bytes_.size() == 1 ? text.find(first_bytes_[0], from)
                                                        : text.find_first_of(first_bytes_, from);
        if (at == std::string_view::npos) return {};
        if (const SpelledToken* token = longest_at(text.substr(at)))
            return {at, at + token->text.size(), token};
        from = at + 1;
    }
}

bool AddedTokens::apply_rules(std::string_view text, std::size_t done, Found& found) {
    const SpelledToken& token = *found.token;
    const std::string_view before = text.substr(0, found.begin);
    const std::string_view after = text.substr(found.end);
    if (token.single_word) {
        if (!before.empty() && is_word_character(last_char(before).code)) return false;
        if (!after.empty() && is_word_character(first_char(after).code)) return false;
    }
    if (token.lstrip) found.begin = std::max(done, found.begin - blanks_at_end(before));
    if (token.rstrip) found.end += blanks_at_start(after);
    return true;
}

const SpelledToken* AddedTokens::longest_at(std::string_view text) const {
    auto begin = tokens_.begin();
    auto end = tokens_.end();
    const SpelledToken* longest = nullptr;
    for (std::size_t depth = 0; begin != end; ++depth) {
        // The tokens of [begin, end) begin with the first `depth` bytes of the text.
        if (begin->text.size() == depth) longest = &*begin;
        if (depth == text.size()) break;
        const int byte = static_cast<unsigned char>(text[depth]);
        const auto below = [depth](const SpelledToken& token, int b) {
            return byte_at(token.text, depth) < b;
        };
        begin = std::lower_bound(begin, end, byte, below);
        end = std::lower_bound(begin, end, byte + 1, below);
    }
    return longest;
}

}  // namespace gptrain
