#include "tokenizer/word_pieces.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "unicode/unicode.h"

namespace gptrain {

WordPieces::WordPieces(const TokenizerDescription& description)
    : pieces_(words_among_tokens(description)),
      continuing_(description.continuing_prefix),
      most_characters_(description.most_characters),
      unknown_(description.unknown) {
    for (const BpeToken& token : description.tokens)
        longest_ = std::max(longest_, token.bytes.size());
}

void WordPieces::encode(std::string_view word, std::vector<std::int32_t>& out) const {
    if (CharKinds::instance().of(first_char(word).code) == CharKind::space) return;
    const auto characters = static_cast<std::size_t>(std::ranges::count_if(word, begins_character));
    const std::size_t first = out.size();
    if (characters <= most_characters_ && add_pieces(word, out)) return;
    out.resize(first);
    out.push_back(unknown_);
}

bool WordPieces::add_pieces(std::string_view word, std::vector<std::int32_t>& out) const {
    std::string piece;
    for (std::size_t begin = 0; begin < word.size();) {
        piece = begin > 0 ? continuing_ : std::string();
        const std::size_t prefix = piece.size();
        piece += word.substr(begin, longest_);  // a part of a character is no piece
        auto id = pieces_.find(piece);
        while (!id && piece.size() > prefix) {
            piece.resize(character_start(piece, piece.size() - 1));
            if (piece.size() > prefix) id = pieces_.find(piece);
        }
        if (!id) return false;
        out.push_back(*id);
        begin += piece.size() - prefix;
    }
    return true;
}

}  // namespace gptrain
