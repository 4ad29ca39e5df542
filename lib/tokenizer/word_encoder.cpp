#include "tokenizer/word_encoder.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace gptrain {
namespace {

using Symbols = TokenizerDescription::Symbols;

bool is_of_characters(const TokenizerDescription& description) {
    return description.symbols == Symbols::characters;
}

/// The tokens that are words, where those are not merged.
WordTable whole_words_of(const TokenizerDescription& description) {
    if (!description.ignore_merges) return WordTable({});
    return words_among_tokens(description);
}

/// Of characters and pieces: those that are one byte, and no blank.
std::array<std::int32_t, 256> single_bytes_of(const TokenizerDescription& description) {
    if (description.symbols == Symbols::bytes) return description.byte_ids;
    std::array<std::int32_t, 256> ids;
    ids.fill(-1);
    std::int32_t id = 0;
    for (const BpeToken& token : description.tokens) {
        if (token.in_words && token.bytes.size() == 1 && token.bytes != " ")
            ids[static_cast<unsigned char>(token.bytes[0])] = id;
        ++id;
    }
    return ids;
}

/// Characters are not split into words; but where merges never cross, it is faster.
std::vector<Splitter> splitters_of(const TokenizerDescription& description) {
    std::vector<Splitter> splitters = description.splitters;
    if (is_of_characters(description) && splits_before_marks(description))
        splitters.push_back(Splitter::marked_words);
    return splitters;
}

}  // namespace

WordEncoder::WordEncoder(const TokenizerDescription& description, std::string source)
    : source_(std::move(source)),
      byte_ids_(single_bytes_of(description)),
      merges_(byte_ids_, description.merges),
      splitters_(splitters_of(description)),
      whole_words_(whole_words_of(description)) {
    for (const BpeToken& token : description.tokens)
        sizes_.push_back(token.bytes.size());
    if (is_of_characters(description)) characters_.emplace(description);
    if (description.symbols == Symbols::pieces) {
        pieces_.emplace(description);
        const std::string_view prefix = description.continuing_prefix;
        for (std::size_t id = 0; id < sizes_.size(); ++id)
            if (description.tokens[id].bytes.starts_with(prefix)) sizes_[id] -= prefix.size();
    }
    if (description.symbols != Symbols::bytes) return;
    for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte)
        if (byte_ids_[byte] < 0) missing_bytes_ += static_cast<char>(byte);
}

bool WordEncoder::is_lossless() const {
    return !pieces_ && missing_bytes_.empty() && (!characters_ || characters_->is_lossless());
}

void WordEncoder::warn_of_missing(std::string_view text) const {
    if (missing_bytes_.empty()) return;
    const std::size_t at = text.find_first_of(missing_bytes_);
    if (at == text.npos || warned_.exchange(true)) return;
    warn("tokenizer ", source_, ": has no token for byte ",
         int{static_cast<unsigned char>(text[at])},
         " of the text; leaves out all bytes without a token");
}

std::int64_t WordEncoder::encoding_bytes(std::string_view text) const {
    std::size_t longest = 0;
    for_each_word(text, splitters_,
                  [&](std::string_view word) { longest = std::max(longest, word.size()); });
    // Ids and their places in vectors that grow, and the merges of one word at a time; of
    // characters also its symbols and their places.
    return static_cast<std::int64_t>(36 * text.size() + (characters_ ? 144 : 96) * longest);
}

void WordEncoder::encode(std::string_view text, WordCache& cache, std::vector<std::int32_t>& out,
                         std::size_t at, std::vector<std::size_t>* begins) const {
    // Several words at a time, so that their cache misses overlap.
    std::array<Word, 16> words;
    std::size_t count = 0;
    const auto encode_all = [&] {
        for (const Word& word : std::span(words).first(count)) {
            const std::size_t first = out.size();
            encode_word(word, cache, out);
            if (begins == nullptr) continue;
            add_begins(std::span(out).subspan(first), word.text,
                       at + static_cast<std::size_t>(word.text.data() - text.data()), *begins);
        }
        count = 0;
    };
    for_each_word(text, splitters_, [&](std::string_view word) {
        Word& next = words[count];
        next.text = word;
        next.key.assign(word, text.data() + text.size());
        cache.prefetch(next.key);
        if (++count == words.size()) encode_all();
    });
    encode_all();
}

void WordEncoder::encode_word(const Word& word, WordCache& cache,
                              std::vector<std::int32_t>& out) const {
    if (word.text.size() == 1 && byte_id(word.text[0]) >= 0)
        return out.push_back(byte_id(word.text[0]));
    if (word.text.size() > WordCache::max_bytes) return merge_word(word.text, out);
    if (cache.append(word.key, out)) return;
    const std::size_t begin = out.size();
    merge_word(word.text, out);
    cache.add(word.key, std::span(out).subspan(begin));
}

void WordEncoder::merge_word(std::string_view word, std::vector<std::int32_t>& out) const {
    if (pieces_) return pieces_->encode(word, out);
    if (const auto whole = whole_words_.find(word)) return out.push_back(*whole);
    if (!characters_) return merge_bytes(word, out);
    const std::vector<std::int32_t> symbols = characters_->symbols_of(word).ids;
    if (!symbols.empty()) merges_.encode(symbols, out);
}

void WordEncoder::merge_bytes(std::string_view word, std::vector<std::int32_t>& out) const {
    if (missing_bytes_.empty() || word.find_first_of(missing_bytes_) == word.npos)
        return merges_.encode(word, out);
    std::string rest(word);
    std::erase_if(rest, [this](char byte) { return byte_id(byte) < 0; });
    if (!rest.empty()) merges_.encode(rest, out);
}

void WordEncoder::add_begins(std::span<const std::int32_t> ids, std::string_view word,
                             std::size_t at, std::vector<std::size_t>& begins) const {
    if (ids.size() == 1 && size_of(ids[0]) == word.size()) return begins.push_back(at);
    if (pieces_) return add_piece_begins(ids, at, begins);
    if (characters_) return add_character_begins(ids, word, at, begins);
    add_byte_begins(ids, word, at, begins);
}

void WordEncoder::add_piece_begins(std::span<const std::int32_t> ids, std::size_t at,
                                   std::vector<std::size_t>& begins) const {
    for (const std::int32_t id : ids) {
        begins.push_back(at);
        at += size_of(id);
    }
}

void WordEncoder::add_byte_begins(std::span<const std::int32_t> ids, std::string_view word,
                                  std::size_t at, std::vector<std::size_t>& begins) const {
    std::size_t place = 0;
    const auto skip_missing = [&] {
        while (place < word.size() && byte_id(word[place]) < 0)
            ++place;
    };
    for (const std::int32_t id : ids) {
        skip_missing();
        begins.push_back(at + place);
        for (std::size_t left = size_of(id); left > 0; --left) {
            skip_missing();
            ++place;
        }
    }
}

void WordEncoder::add_character_begins(std::span<const std::int32_t> ids, std::string_view word,
                                       std::size_t at, std::vector<std::size_t>& begins) const {
    const CharacterSymbols::Word symbols = characters_->symbols_of(word);
    std::size_t next = 0;  // the symbol with which a token begins
    for (const std::int32_t id : ids) {
        // A word that is a token takes all of its symbols, whatever they are.
        begins.push_back(at + (next < symbols.begins.size() ? symbols.begins[next] : 0));
        std::size_t size = 0;
        while (next < symbols.ids.size() && size < size_of(id))
            size += size_of(symbols.ids[next++]);
    }
}

}  // namespace gptrain
