// WordPiece: the longest pieces of a word, from its start.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_description.h"
#include "tokenizer/word_table.h"

namespace gptrain {

class WordPieces {
public:
    explicit WordPieces(const TokenizerDescription& description);

    /// Appends the ids of a word; the unknown token if it is too long or has no pieces; nothing for
    /// white space.
    void encode(std::string_view word, std::vector<std::int32_t>& out) const;

private:
    /// False if pieces do not cover the word; then some of them may have been appended.
    bool add_pieces(std::string_view word, std::vector<std::int32_t>& out) const;

    WordTable pieces_;
    std::string continuing_;
    std::size_t most_characters_;
    std::int32_t unknown_;
    std::size_t longest_ = 0;  ///< bytes of the longest piece
};

}  // namespace gptrain
