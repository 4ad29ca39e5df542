#include "tokenizer/added_tokens.h"

#include <algorithm>

namespace gptrain {
namespace {

/// The byte at `depth` of a token; -1 after its end, which sorts first.
int byte_at(const std::string& token, std::size_t depth) {
    return depth < token.size() ? static_cast<unsigned char>(token[depth]) : -1;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
    std::sort(tokens_.begin(), tokens_.end());
    for (const Token& token : tokens_) {
        if (first_bytes_.empty() || first_bytes_.back() != token.first.front())
            first_bytes_ += token.first.front();
    }
}

AddedTokens::Found AddedTokens::find(std::string_view text, std::size_t from) const {
    while (true) {
        const std::size_t at = first_bytes_.size() == 1 ? text.find(first_bytes_[0], from)
                                                        : text.find_first_of(first_bytes_, from);
        if (at == std::string_view::npos) return {};
        if (const Token* token = longest_at(text.substr(at))) return {at, token};
        from = at + 1;
    }
}

const AddedTokens::Token* AddedTokens::longest_at(std::string_view text) const {
    auto begin = tokens_.begin();
    auto end = tokens_.end();
    const Token* longest = nullptr;
    for (std::size_t depth = 0; begin != end; ++depth) {
        // The tokens of [begin, end) begin with the first `depth` bytes of the text.
        if (begin->first.size() == depth) longest = &*begin;
        if (depth == text.size()) break;
        const int byte = static_cast<unsigned char>(text[depth]);
        const auto below = [depth](const Token& token, int b) {
            return byte_at(token.first, depth) < b;
        };
        begin = std::lower_bound(begin, end, byte, below);
        end = std::lower_bound(begin, end, byte + 1, below);
    }
    return longest;
}

}  // namespace gptrain
