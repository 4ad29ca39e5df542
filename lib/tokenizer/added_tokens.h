// Tokens that are found in a text as they are spelled, before it is split into words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gptrain {

/// Finds strings in texts: the leftmost, and of those that begin there the longest.
class AddedTokens {
public:
    /// `tokens`: nonempty spellings and their ids.
    explicit AddedTokens(std::vector<std::pair<std::string, std::int32_t>> tokens);

    /// Calls `take_text` with each nonempty part of the text between tokens, `take_id` with the id
    /// of each token and its part of the text, in order.
    void split(std::string_view text, const auto& take_text, const auto& take_id) const {
        std::size_t begin = 0;
        while (!tokens_.empty()) {
            const Found found = find(text, begin);
            if (found.token == nullptr) break;
            if (found.at > begin) take_text(text.substr(begin, found.at - begin));
            const std::string_view token = text.substr(found.at, found.token->first.size());
            take_id(found.token->second, token);
            begin = found.at + token.size();
        }
        if (begin < text.size()) take_text(text.substr(begin));
    }

private:
    using Token = std::pair<std::string, std::int32_t>;
    struct Found {
        std::size_t at = 0;
        const Token* token = nullptr;
    };

    Found find(std::string_view text, std::size_t from) const;
    const Token* longest_at(std::string_view text) const;

    std::vector<Token> tokens_;  ///< sorted
    std::string first_bytes_;    ///< of the tokens, each once
};

}  // namespace gptrain
