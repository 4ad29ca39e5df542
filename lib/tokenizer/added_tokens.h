// Tokens that are found in a text as they are spelled, before it is split into words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

/// A token to find, and where it counts as found.
struct SpelledToken {
    std::string text;  ///< nonempty
    std::int32_t id = 0;
    bool single_word = false;  ///< only between characters that belong to no word
    bool lstrip = false;       ///< with the white space before it
    bool rstrip = false;       ///< with the white space after it
};

/// Finds strings in texts: the leftmost, and of those that begin there the longest. One that is not
/// a single word as it should be is text, and no other is looked for within it.
class AddedTokens {
public:
    explicit AddedTokens(std::vector<SpelledToken> tokens);

    /// Calls `take_text` with each nonempty part of the text between tokens, `take_id` with the id
    /// of each token and its part of the text, in order.
    void split(std::string_view text, const auto& take_text, const auto& take_id) const {
        std::size_t done = 0;  // the text before was taken
        std::size_t from = 0;  // where to look on
        while (!tokens_.empty()) {
            Found found = find(text, from);
            if (found.token == nullptr) break;
            from = found.end;
            if (has_rules_ && !apply_rules(text, done, found)) continue;
            if (found.begin > done) take_text(text.substr(done, found.begin - done));
            take_id(found.token->id, text.substr(found.begin, found.end - found.begin));
            done = found.end;
        }
        if (done < text.size()) take_text(text.substr(done));
    }

private:
    struct Found {
        std::size_t begin = 0;
        std::size_t end = 0;
        const SpelledToken* token = nullptr;
    };

    Found find(std::string_view text, std::size_t from) const;
    const SpelledToken* longest_at(std::string_view text) const;
    /// Adds white space from `done` on; false if the token does not count there.
    static bool apply_rules(std::string_view text, std::size_t done, Found& found);

    std::vector<SpelledToken> tokens_;  ///< sorted
    std::string first_bytes_;           ///< of the tokens, each once
    bool has_rules_ = false;            ///< of any token
};

}  // namespace gptrain
