// From normalized text to ids, between added tokens: words, each encoded independently.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/character_symbols.h"
#include "tokenizer/tokenizer_description.h"
#include "tokenizer/word_cache.h"
#include "tokenizer/word_pieces.h"
#include "tokenizer/word_table.h"

namespace gptrain {

class WordEncoder {
public:
    /// `source` names the tokenizer in a warning.
    WordEncoder(const TokenizerDescription& description, std::string source);

    /// Appends the ids of a text, and to `begins`, if given, `at` plus the byte of the text at
    /// which each of them begins.
    void encode(std::string_view text, WordCache& cache, std::vector<std::int32_t>& out,
                std::size_t at, std::vector<std::size_t>* begins) const;

    /// Bytes of memory that suffice to encode this text.
    std::int64_t encoding_bytes(std::string_view text) const;

    /// True if no character is left out or becomes one unknown token with others.
    bool is_lossless() const;

    /// Some vocabularies lack control characters. Like the library `tokenizers`, the encoder leaves
    /// out what no id could stand for; a line says so once.
    void warn_of_missing(std::string_view text) const;

private:
    struct Word {
        std::string_view text;
        WordCache::Key key;
    };

    std::size_t size_of(std::int32_t id) const { return sizes_[static_cast<std::size_t>(id)]; }
    std::int32_t byte_id(char byte) const { return byte_ids_[static_cast<unsigned char>(byte)]; }
    void encode_word(const Word& word, WordCache& cache, std::vector<std::int32_t>& out) const;
    void merge_word(std::string_view word, std::vector<std::int32_t>& out) const;
    void merge_bytes(std::string_view word, std::vector<std::int32_t>& out) const;
    void add_begins(std::span<const std::int32_t> ids, std::string_view word, std::size_t at,
                    std::vector<std::size_t>& begins) const;
    void add_piece_begins(std::span<const std::int32_t> ids, std::size_t at,
                          std::vector<std::size_t>& begins) const;
    void add_byte_begins(std::span<const std::int32_t> ids, std::string_view word, std::size_t at,
                         std::vector<std::size_t>& begins) const;
    void add_character_begins(std::span<const std::int32_t> ids, std::string_view word,
                              std::size_t at, std::vector<std::size_t>& begins) const;

    std::string source_;
    std::array<std::int32_t, 256> byte_ids_;      ///< of words of one byte; -1: not so simple
    std::optional<WordPieces> pieces_;            ///< nothing: words are merged
    std::optional<CharacterSymbols> characters_;  ///< nothing: words are merged from bytes
    std::vector<std::size_t> sizes_;              ///< bytes of text that each token stands for
    std::string missing_bytes_;                   ///< those that have no token
    mutable std::atomic<bool> warned_ = false;
    BpeMerges merges_;
    std::vector<Splitter> splitters_;
    WordTable whole_words_;
};

}  // namespace gptrain
