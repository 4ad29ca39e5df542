#include "tokenizer/bpe_model.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/model_check.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/word_cache.h"
#include "tokenizer/word_encoder.h"
#include "unicode/unicode.h"

namespace gptrain {
namespace {

using std::string_view_literals::operator""sv;

/// What the normalizer makes of a part of a text (mark_spaces, normalize_nfc).
std::string_view normalize(std::string_view text, bool nfc, const SpaceMarks& marks,
                           std::string& buffer, std::vector<NormalizedPart>* parts) {
    return nfc ? normalize_nfc(text, buffer, parts) : mark_spaces(text, marks, true, buffer, parts);
}

/// How an added token is found: in normalized text as that has it.
std::string_view spelled(const BpeDescription& description, const AddedToken& token,
                         std::string& buffer) {
    if (!token.normalized) return token.content;
    return normalize(token.content, description.nfc, description.normalizer, buffer, nullptr);
}

AddedTokens matcher_of(const BpeDescription& description, bool normalized) {
    std::vector<SpelledToken> tokens;
    for (const AddedToken& token : description.added) {
        if (token.normalized != normalized) continue;
        std::string buffer;
        tokens.push_back({std::string(spelled(description, token, buffer)), token.id,
                          token.single_word, token.lstrip, token.rstrip});
    }
    return AddedTokens(std::move(tokens));
}

/// The text of a token of characters.
DecodedPiece decoded(const std::string& token, const BpeDescription& description) {
    constexpr std::string_view digits = "0123456789abcdefABCDEF";
    if (description.decodes_bytes && token.size() == 6 && token.starts_with("<0x") &&
        token.ends_with('>') && token.find_first_not_of(digits, 3) == 5)
        return {DecodedPiece::Kind::bytes,
                std::string(1, static_cast<char>(std::stoi(token.substr(3, 2), nullptr, 16)))};
    return {DecodedPiece::Kind::text, description.decodes_marks ? unescape_spaces(token) : token};
}

class BpeModel : public TokenModel {
public:
    BpeModel(const BpeDescription& description, std::string source, std::string_view eos_token)
        : raw_added_(matcher_of(description, false)),
          normalized_added_(matcher_of(description, true)),
          nfc_(description.nfc),
          normalizer_(description.normalizer),
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
                    return encode_normalized(normalize(part, nfc_, normalizer_, buffer, nullptr),
                                             at == 0, cache, out, nullptr);
                }
                parts = unchanged;
                normal_begins.clear();
                encode_normalized(normalize(part, nfc_, normalizer_, buffer, &parts), at == 0,
                                  cache, out, &normal_begins);
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
        const std::string_view normal = normalize(text, nfc_, normalizer_, buffer, nullptr);
        return words_.encoding_bytes(mark_spaces(normal, pre_tokenizer_, true, marked, nullptr)) +
               std::ssize(buffer) + std::ssize(marked);
    }

private:
    void set_pieces(const BpeDescription& description) {
        const bool of_bytes = description.symbols == BpeDescription::Symbols::bytes;
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
        if (words_.is_lossless() && !nfc_ && !strips) most_bytes = most;
    }

    void set_first_texts(const BpeDescription& description) {
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

    static std::optional<std::int32_t> id_of_added(const BpeDescription& description,
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
    bool nfc_;
    SpaceMarks normalizer_;
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
