#include "tokenizer/bpe_model.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe_merges.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/word_cache.h"
#include "tokenizer/word_table.h"
#include "unicode/unicode.h"

namespace gptrain {
namespace {

using std::string_view_literals::operator""sv;

/// How an added token is found: in normalized text as that has it.
std::string_view spelled(const BpeDescription& description, const AddedToken& token,
                         std::string& buffer) {
    return token.normalized && description.nfc ? normalize_nfc(token.content, buffer)
                                               : std::string_view(token.content);
}

AddedTokens matcher_of(const BpeDescription& description, bool normalized) {
    std::vector<std::pair<std::string, std::int32_t>> tokens;
    for (const AddedToken& token : description.added) {
        if (token.normalized != normalized) continue;
        std::string buffer;
        tokens.emplace_back(spelled(description, token, buffer), token.id);
    }
    return AddedTokens(std::move(tokens));
}

/// The tokens that are words, where those are not merged.
WordTable whole_words_of(const BpeDescription& description) {
    if (!description.ignore_merges) return WordTable({});
    std::vector<WordTable::Word> words;
    std::int32_t id = 0;
    for (const BpeToken& token : description.tokens) {
        if (token.spells_bytes) words.push_back({token.bytes, id});
        ++id;
    }
    return WordTable(std::move(words));
}

class BpeModel : public TokenModel {
public:
    BpeModel(BpeDescription description, std::string source, std::string_view eos_token)
        : source_(std::move(source)),
          raw_added_(matcher_of(description, false)),
          normalized_added_(matcher_of(description, true)),
          byte_ids_(description.byte_ids),
          merges_(description.byte_ids, std::move(description.merges)),
          splitters_(std::move(description.splitters)),
          nfc_(description.nfc),
          whole_words_(whole_words_of(description)),
          caches_(description.tokens.size()) {
        for (BpeToken& token : description.tokens) {
            sizes_.push_back(token.bytes.size());
            pieces.push_back({DecodedPiece::Kind::bytes, std::move(token.bytes)});
        }
        for (const AddedToken& token : description.added) {
            const auto id = static_cast<std::size_t>(token.id);
            std::string buffer;
            sizes_[id] = spelled(description, token, buffer).size();
            pieces[id] = {DecodedPiece::Kind::text, token.special ? "" : token.content};
            if (token.special) marks.emplace(token.id, token.content);
        }
        if (description.prefix >= 0) prefix_id = description.prefix;
        bos_id = id_of_added(description, "<|begin_of_text|>");
        for (const std::string_view end : {"<|endoftext|>"sv, "<|end_of_text|>"sv, eos_token})
            if (!eos_id) eos_id = id_of_added(description, end);
        for (const std::string_view mask : mask_spellings)
            if (!mask_id) mask_id = id_of_added(description, mask);
        for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte)
            if (byte_ids_[byte] < 0) missing_bytes_ += static_cast<char>(byte);
        if (missing_bytes_.empty() && !nfc_)
            most_bytes = *std::max_element(sizes_.begin(), sizes_.end());
    }

    void encode(std::string_view text, std::vector<std::int32_t>& out,
                std::vector<std::size_t>* begins, TextStart /*start*/) const override {
        warn_of_missing_bytes(text);
        std::size_t at = 0;  // of the text, where the next part or token begins
        const auto take_raw_id = [&](std::int32_t id, std::string_view token) {
            out.push_back(id);
            if (begins != nullptr) begins->push_back(at);
            at += token.size();
        };
        caches_.with_cache([&](WordCache& cache) {
            std::string buffer;
            std::vector<NormalizedPart> parts;
            std::vector<std::size_t> normal_begins;
            const auto encode_raw = [&](std::string_view part) {
                if (begins != nullptr) parts = {{.begin = 0, .original = 0, .same = true}};
                normal_begins.clear();
                const std::string_view normal =
                    nfc_ ? normalize_nfc(part, buffer, begins != nullptr ? &parts : nullptr) : part;
                encode_normalized(normal, cache, out, begins != nullptr ? &normal_begins : nullptr);
                if (begins != nullptr) add_begins(normal_begins, parts, at, *begins);
                at += part.size();
            };
            raw_added_.split(text, encode_raw, take_raw_id);
        });
    }

    std::int64_t encoding_bytes(std::string_view text) const override {
        std::string buffer;
        const std::string_view normal = nfc_ ? normalize_nfc(text, buffer) : text;
        std::size_t longest = 0;
        for_each_word(normal, splitters_,
                      [&](std::string_view word) { longest = std::max(longest, word.size()); });
        // Ids and their places in vectors that grow, and the merges of one word at a time.
        return static_cast<std::int64_t>(36 * normal.size() + 96 * longest);
    }

private:
    struct Word {
        std::string_view text;
        WordCache::Key key;
    };

    /// Appends where tokens begin in a part of a text, which begins at byte `at`, of where they
    /// begin in the same part normalized.
    static void add_begins(std::span<const std::size_t> normal_begins,
                           std::span<const NormalizedPart> parts, std::size_t at,
                           std::vector<std::size_t>& begins) {
        for (const std::size_t normal : normal_begins) {
            while (parts.size() > 1 && parts[1].begin <= normal)
                parts = parts.subspan(1);
            const std::size_t inside = parts[0].same ? normal - parts[0].begin : 0;
            begins.push_back(at + parts[0].original + inside);
        }
    }

    static std::optional<std::int32_t> id_of_added(const BpeDescription& description,
                                                   std::string_view content) {
        for (const AddedToken& token : description.added)
            if (token.content == content) return token.id;
        return std::nullopt;
    }

    std::size_t size_of(std::int32_t id) const { return sizes_[static_cast<std::size_t>(id)]; }

    bool is_missing(char byte) const { return byte_ids_[static_cast<unsigned char>(byte)] < 0; }

    /// Some vocabularies lack control characters. Like the library `tokenizers`, the encoder leaves
    /// out what no id could stand for.
    void warn_of_missing_bytes(std::string_view text) const {
        if (missing_bytes_.empty()) return;
        const std::size_t at = text.find_first_of(missing_bytes_);
        if (at == text.npos || warned_.exchange(true)) return;
        warn("tokenizer ", source_, ": has no token for byte ",
             int{static_cast<unsigned char>(text[at])},
             " of the text; leaves out all bytes without a token");
    }

    void encode_normalized(std::string_view text, WordCache& cache, std::vector<std::int32_t>& out,
                           std::vector<std::size_t>* begins) const {
        std::size_t at = 0;
        const auto encode_part = [&](std::string_view part) {
            encode_words(part, cache, out, at, begins);
            at += part.size();
        };
        const auto take_id = [&](std::int32_t id, std::string_view token) {
            out.push_back(id);
            if (begins != nullptr) begins->push_back(at);
            at += token.size();
        };
        normalized_added_.split(text, encode_part, take_id);
    }

    /// `at`: where the text begins, for `begins`.
    void encode_words(std::string_view text, WordCache& cache, std::vector<std::int32_t>& out,
                      std::size_t at, std::vector<std::size_t>* begins) const {
        // Several words at a time, so that their cache misses overlap.
        std::array<Word, 16> words;
        std::size_t count = 0;
        const auto encode_all = [&] {
            for (const Word& word : std::span(words).first(count)) {
                const std::size_t first = out.size();
                encode_word(word, cache, out);
                if (begins == nullptr) continue;
                add_word_begins(std::span(out).subspan(first), word.text,
                                at + static_cast<std::size_t>(word.text.data() - text.data()),
                                *begins);
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

    /// Appends where the tokens of a word begin, which begins at `at`.
    void add_word_begins(std::span<const std::int32_t> ids, std::string_view word, std::size_t at,
                         std::vector<std::size_t>& begins) const {
        if (ids.size() == 1 && size_of(ids[0]) == word.size()) return begins.push_back(at);
        std::size_t place = 0;
        const auto skip_missing = [&] {
            while (place < word.size() && is_missing(word[place]))
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

    void encode_word(const Word& word, WordCache& cache, std::vector<std::int32_t>& out) const {
        if (word.text.size() == 1 && !is_missing(word.text[0]))
            return out.push_back(byte_ids_[static_cast<unsigned char>(word.text[0])]);
        if (word.text.size() > WordCache::max_bytes) return merge_word(word.text, out);
        if (cache.append(word.key, out)) return;
        const std::size_t begin = out.size();
        merge_word(word.text, out);
        cache.add(word.key, std::span(out).subspan(begin));
    }

    void merge_word(std::string_view word, std::vector<std::int32_t>& out) const {
        if (const auto whole = whole_words_.find(word)) return out.push_back(*whole);
        if (missing_bytes_.empty() || word.find_first_of(missing_bytes_) == word.npos)
            return merges_.encode(word, out);
        std::string rest(word);
        std::erase_if(rest, [this](char byte) { return is_missing(byte); });
        if (!rest.empty()) merges_.encode(rest, out);
    }

    std::string source_;
    AddedTokens raw_added_;
    AddedTokens normalized_added_;
    std::array<std::int32_t, 256> byte_ids_;
    std::vector<std::size_t> sizes_;  ///< bytes of text that each token stands for
    std::string missing_bytes_;       ///< those that have no token
    mutable std::atomic<bool> warned_ = false;
    BpeMerges merges_;
    std::vector<Splitter> splitters_;
    bool nfc_;
    WordTable whole_words_;
    mutable WordCaches caches_;
};

}  // namespace

std::unique_ptr<TokenModel> load_bpe_model(std::string_view json, const std::string& source,
                                           std::string_view eos_token) {
    return std::make_unique<BpeModel>(parse_tokenizer_json(json, source), source, eos_token);
}

}  // namespace gptrain
