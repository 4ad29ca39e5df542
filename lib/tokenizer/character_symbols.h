// The symbols that merging begins with where the vocabulary is of characters.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_description.h"
#include "tokenizer/word_table.h"

namespace gptrain {

/// The symbols of words: a character's token; without one the tokens of its bytes; without those
/// the unknown token; without that nothing.
class CharacterSymbols {
public:
    explicit CharacterSymbols(const TokenizerDescription& description);

    struct Word {
        std::vector<std::int32_t> ids;
        std::vector<std::size_t> begins;  ///< the byte of the word at which each symbol begins
    };
    Word symbols_of(std::string_view word) const;

    /// True if every character has a symbol that stands for it alone.
    bool is_lossless() const { return has_all_bytes_; }

private:
    /// The bytes that valid UTF-8 has.
    bool has_bytes(std::string_view character) const;

    WordTable characters_;
    std::array<std::int32_t, 256> byte_ids_;
    std::int32_t unknown_;
    bool fuses_unknown_;
    bool has_all_bytes_ = true;
};

/// True if no merge joins a character with a mark of a space after it, so that texts may be split
/// there.
bool splits_before_marks(const TokenizerDescription& description);

}  // namespace gptrain
