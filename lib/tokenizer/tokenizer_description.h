// A tokenizer of BPE or WordPiece as its file describes it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/bpe_merges.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/space_marks.h"
#include "tokenizer/word_table.h"
#include "unicode/bert_text.h"

namespace gptrain {

struct AddedToken {
    std::string content;
    std::int32_t id = 0;
    bool special = false;     ///< a mark, not text
    bool normalized = false;  ///< found in normalized text, else in the text as it is
    bool single_word = false;
    bool lstrip = false;
    bool rstrip = false;
};

/// A token of the vocabulary.
struct BpeToken {
    std::string bytes;     ///< empty: no token has this id
    bool in_words = true;  ///< false: can only be found as an added token
};

/// The parts of a file that define encoding and decoding. Post-processors add tokens around a text;
/// only their first token is kept. Settings of padding and truncation are not applied.
struct TokenizerDescription {
    /// The symbols that merging begins with; `pieces`: nothing is merged, it is WordPiece.
    enum class Symbols : std::uint8_t { bytes, characters, pieces };

    Symbols symbols = Symbols::bytes;
    std::vector<BpeToken> tokens;  ///< by id, the added ones included
    std::vector<BpeMerge> merges;
    /// By byte, -1: no token. Of bytes: such a byte is left out of texts. Of characters: the tokens
    /// that spell a character without a token; they take part in it only if all its bytes have one.
    std::array<std::int32_t, 256> byte_ids{};
    /// Of characters: for one without any token; -1: it is left out. Of pieces: for a word.
    std::int32_t unknown = -1;
    bool fuses_unknown = false;  ///< a run of them is one token
    std::vector<AddedToken> added;
    bool ignore_merges = false;     ///< a word that is a token is not merged
    bool nfc = false;               ///< texts are normalized first
    std::optional<BertRules> bert;  ///< the same, as BERT does
    SpaceMarks normalizer;          ///< before added tokens are found in normalized text
    SpaceMarks pre_tokenizer;       ///< after that
    std::vector<Splitter> splitters;
    bool decodes_marks = false;       ///< of characters: marks decode to spaces
    bool decodes_bytes = false;       ///< of characters: tokens of bytes decode to them
    bool strips_first_blank = false;  ///< of characters: without a space at the start of the text
    bool drops_first_marks = false;   ///< of characters: without the marks of the first token
    std::string continuing_prefix;    ///< of pieces: of those that do not begin a word
    std::size_t most_characters = 0;  ///< of pieces: longer words are unknown
    bool cleans_up = false;           ///< of pieces: decoding joins punctuation to words
    std::int32_t prefix = -1;  ///< the token that a post-processor puts before a text, if any
};

/// The tokens that are words and for which takes(bytes) is true, with their ids.
WordTable words_among_tokens(const TokenizerDescription& description, const auto& takes) {
    std::vector<WordTable::Word> words;
    std::int32_t id = 0;
    for (const BpeToken& token : description.tokens) {
        if (token.in_words && takes(token.bytes)) words.push_back({token.bytes, id});
        ++id;
    }
    return WordTable(std::move(words));
}
inline WordTable words_among_tokens(const TokenizerDescription& description) {
    return words_among_tokens(description, [](std::string_view /*bytes*/) { return true; });
}

}  // namespace gptrain
