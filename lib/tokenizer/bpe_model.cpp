#include "tokenizer/bpe_model.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/model_check.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/word_cache.h"
#include "tokenizer/word_encoder.h"
#include "unicode/bert_text.h"
#include "unicode/unicode.h"

namespace gptrain {
namespace {

using std::string_view_literals::operator""sv;

/// The normalizer of a file.
class Normalization {
public:
    explicit Normalization(const TokenizerDescription& description)
        : nfc_(description.nfc), bert_(description.bert), marks_(description.normalizer) {}

    /// Normalizes a part of a text, as normalize_nfc, normalize_bert or mark_spaces does.
    std::string_view apply(std::string_view text, std::string& buffer,
                           std::vector<NormalizedPart>* parts) const {
        if (nfc_) return normalize_nfc(text, buffer, parts);
        if (bert_) return normalize_bert(text, *bert_, buffer, parts);
        return mark_spaces(text, marks_, true, buffer, parts);
    }
    /// The bytes of memory that it takes for a text.
    std::size_t memory(std::string_view text) const {
        // BERT's has each character with its place, several times.
        return bert_ ? 64 * text.size() : marks_.changes() ? 4 * text.size() : 0;
    }
    /// False if bytes of text may disappear.
    bool keeps_bytes() const { return !nfc_ && !bert_; }

private:
    bool nfc_;
    std::optional<BertRules> bert_;
    SpaceMarks marks_;
};

/// How an added token is found: in normalized text as that has it.
std::string_view spelled(const TokenizerDescription& description, const AddedToken& token,
                         std::string& buffer) {
    if (!token.normalized) return token.content;
    return Normalization(description).apply(token.content, buffer, nullptr);
}

AddedTokens matcher_of(const TokenizerDescription& description, bool normalized) {
    std::vector<SpelledToken> tokens;
    for (const AddedToken& token : description.added) {
        if (token.normalized != normalized) continue;
        std::string buffer;
        tokens.push_back({std::string(spelled(description, token, buffer)), token.id,
                          token.single_word, token.lstrip, token.rstrip});
    }
    return AddedTokens(std::move(tokens));
}

/// As the decoder of WordPiece joins punctuation and short words to the word before.
std::string cleaned_up(std::string text) {
    constexpr std::pair<std::string_view, std::string_view> rules[] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [from, to] : rules)
        for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
            text.replace(at, from.size(), to);
    return text;
}

/// The text of a token of pieces; `first`: at the start of a text.
std::string decoded_piece(const std::string& token, const TokenizerDescription& description,
                          bool first) {
    std::string text = token;
    if (!first) {
        const std::string& prefix = description.continuing_prefix;
        text = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
    }
    return description.cleans_up ? cleaned_up(std::move(text)) : text;
}

/// The byte of a token such as <0x0A>.
std::optional<char> named_byte(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
    unsigned char byte = 0;
    const char* const end = token.data() + 5;
    if (std::from_chars(token.data() + 3, end, byte, 16).ptr != end) return std::nullopt;
    return static_cast<char>(byte);
}

/// The text of a token of characters or pieces.
DecodedPiece decoded(const std::string& token, const TokenizerDescription& description) {
    if (description.symbols == TokenizerDescription::Symbols::pieces)
        return {DecodedPiece::Kind::text, decoded_piece(token, description, false)};
    if (const auto byte = description.decodes_bytes ? named_byte(token) : std::nullopt)
        return {DecodedPiece::Kind::bytes, std::string(1, *byte)};
    return {DecodedPiece::Kind::text, description.decodes_marks ? unescape_spaces(token) : token};
}

class BpeModel : public TokenModel {
public:
    BpeModel(const TokenizerDescription& description, std::string source,
             std::string_view eos_token)
        : raw_added_(matcher_of(description, false)),
          normalized_added_(matcher_of(description, true)),
          normalization_(description),
          pre_tokenizer_(description.pre_tokenizer),
          words_(description, std::move(source)),
          caches_(description.tokens.size()) {
        set_pieces(description);
        if (description.prefix >= 0) prefix_id = description.prefix;
        bos_id = id_of_added(description, "<|begin_of_text|>");
        for (const std::string_view end : {"<|endoftext|>"sv, "<|end_of_text|>"sv, eos_token})
            if (!eos_id) eos_id = id_of_added(description, end);
        for (const std::string_view mask : mask_spellings)
            if (!mask_id) mask_id = id_of_added(description, mask);
    }

    void encode(std::string_view text, std::vector<std::int32_t>& out,
                std::vector<std::size_t>* begins, TextStart /*start*/) const override {
        words_.warn_of_missing(text);
        caches_.with_cache([&](WordCache& cache) {
            std::string buffer;
            std::vector<NormalizedPart> parts;
            std::vector<std::size_t> normal_begins;
            const auto encode_raw = [&](std::string_view part) {
                const auto at = static_cast<std::size_t>(part.data() - text.data());
                if (begins == nullptr) {
                    return encode_normalized(normalization_.apply(part, buffer, nullptr), at == 0,
                                             cache, out, nullptr);
                }
                parts = unchanged;
                normal_begins.clear();
                encode_normalized(normalization_.apply(part, buffer, &parts), at == 0, cache, out,
                                  &normal_begins);
                add_begins(normal_begins, parts, at, *begins);
            };
            const auto take_raw_id = [&](std::int32_t id, std::string_view token) {
                out.push_back(id);
                if (begins != nullptr)
                    begins->push_back(static_cast<std::size_t>(token.data() - text.data()));
            };
            raw_added_.split(text, encode_raw, take_raw_id);
        });
    }

    std::int64_t encoding_bytes(std::string_view text) const override {
        std::string buffer, marked;
        const std::string_view normal = normalization_.apply(text, buffer, nullptr);
        const std::string_view words = mark_spaces(normal, pre_tokenizer_, true, marked, nullptr);
        return words_.encoding_bytes(words) +
               static_cast<std::int64_t>(normalization_.memory(text) + marked.size());
    }

private:
    void set_pieces(const TokenizerDescription& description) {
        const bool of_bytes = description.symbols == TokenizerDescription::Symbols::bytes;
        std::size_t most = 0;
        for (const BpeToken& token : description.tokens) {
            most = std::max(most, token.bytes.size());
            pieces.push_back(of_bytes ? DecodedPiece{DecodedPiece::Kind::bytes, token.bytes}
                                      : decoded(token.bytes, description));
        }
        bool strips = false;
        for (const AddedToken& token : description.added) {
            const auto id = static_cast<std::size_t>(token.id);
            std::string buffer;
            const std::string content(spelled(description, token, buffer));
            most = std::max(most, content.size());
            strips |= token.lstrip || token.rstrip;
            pieces[id] = of_bytes ? DecodedPiece{DecodedPiece::Kind::text, content}
                                  : decoded(content, description);
            if (!token.special) continue;
            pieces[id] = {DecodedPiece::Kind::text, ""};
            marks.emplace(token.id, token.content);
        }
        strips_first_blank = description.strips_first_blank;
        if (description.drops_first_marks) set_first_texts(description);
        if (description.symbols == TokenizerDescription::Symbols::pieces)
            set_first_pieces(description);
        if (words_.is_lossless() && normalization_.keeps_bytes() && !strips) most_bytes = most;
    }

    void set_first_pieces(const TokenizerDescription& description) {
        std::int32_t id = 0;
        for (const BpeToken& token : description.tokens)
            first_texts[id++] = decoded_piece(token.bytes, description, true);
        for (const AddedToken& token : description.added) {
            std::string buffer;
            const std::string content(spelled(description, token, buffer));
            first_texts[token.id] = decoded_piece(content, description, true);
            if (token.special) first_texts.erase(token.id);
        }
    }

    void set_first_texts(const TokenizerDescription& description) {
        std::int32_t id = 0;
        for (const BpeToken& token : description.tokens) {
            std::string kept = token.bytes;
            for (auto at = kept.find(space_mark); at != kept.npos; at = kept.find(space_mark))
                kept.erase(at, space_mark.size());
            if (kept.size() < token.bytes.size() && !marks.contains(id))
                first_texts.emplace(id, kept);
            ++id;
        }
    }

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

    static std::optional<std::int32_t> id_of_added(const TokenizerDescription& description,
                                                   std::string_view content) {
        for (const AddedToken& token : description.added)
            if (token.content == content) return token.id;
        return std::nullopt;
    }

    /// `first`: the whole text starts with this one.
    void encode_normalized(std::string_view text, bool first, WordCache& cache,
                           std::vector<std::int32_t>& out, std::vector<std::size_t>* begins) const {
        const auto place_of = [text](std::string_view part) {
            return static_cast<std::size_t>(part.data() - text.data());
        };
        const auto encode_part = [&](std::string_view part) {
            const std::size_t at = place_of(part);
            if (!pre_tokenizer_.changes()) return words_.encode(part, cache, out, at, begins);
            std::string buffer;
            std::vector<NormalizedPart> parts = unchanged;
            std::vector<std::size_t> marked_begins;
            const std::string_view marked =
                mark_spaces(part, pre_tokenizer_, first && at == 0, buffer,
                            begins != nullptr ? &parts : nullptr);
            words_.encode(marked, cache, out, 0, begins != nullptr ? &marked_begins : nullptr);
            if (begins != nullptr) add_begins(marked_begins, parts, at, *begins);
        };
        const auto take_id = [&](std::int32_t id, std::string_view token) {
            out.push_back(id);
            if (begins != nullptr) begins->push_back(place_of(token));
        };
        normalized_added_.split(text, encode_part, take_id);
    }

    static inline const std::vector<NormalizedPart> unchanged = {
        {.begin = 0, .original = 0, .same = true}};

    AddedTokens raw_added_;
    AddedTokens normalized_added_;
    Normalization normalization_;
    SpaceMarks pre_tokenizer_;
    WordEncoder words_;
    mutable WordCaches caches_;
};

}  // namespace

std::unique_ptr<TokenModel> load_bpe_model(std::string_view json, const std::string& source,
                                           std::string_view eos_token) {
    return std::make_unique<BpeModel>(parse_tokenizer_json(json, source), source, eos_token);
}

}  // namespace gptrain
