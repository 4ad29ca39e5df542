#include "text/bpe_model.h"

#include <array>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "text/added_tokens.h"
#include "text/bpe_merges.h"
#include "text/tokenizer_json.h"
#include "text/unicode.h"
#include "text/word_cache.h"

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

/// Hashes strings and views alike, so that a view can be looked up.
struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const {
        return std::hash<std::string_view>()(word);
    }
};

class BpeModel : public TokenModel {
public:
    BpeModel(BpeDescription description, std::string_view eos_token)
        : raw_added_(matcher_of(description, false)),
          normalized_added_(matcher_of(description, true)),
          byte_ids_(description.byte_ids),
          merges_(description.byte_ids, std::move(description.merges)),
          splitters_(std::move(description.splitters)),
          nfc_(description.nfc) {
        for (BpeToken& token : description.tokens) {
            const auto id = static_cast<std::int32_t>(pieces.size());
            sizes_.push_back(token.bytes.size());
            if (description.ignore_merges && token.spells_bytes)
                whole_words_.emplace(token.bytes, id);
            pieces.push_back({DecodedPiece::Kind::bytes, std::move(token.bytes)});
        }
        for (const AddedToken& token : description.added) {
            const auto id = static_cast<std::size_t>(token.id);
            std::string buffer;
            sizes_[id] = spelled(description, token, buffer).size();
            pieces[id] = {DecodedPiece::Kind::text, token.special ? "" : token.content};
            if (token.special) marks.emplace(token.id, token.content);
        }
        bos_id = id_of_added(description, "<|begin_of_text|>");
        for (const std::string_view end : {"<|endoftext|>"sv, "<|end_of_text|>"sv, eos_token})
            if (!eos_id) eos_id = id_of_added(description, end);
        for (const std::string_view mask : mask_spellings)
            if (!mask_id) mask_id = id_of_added(description, mask);
        for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte)
            if (byte_ids_[byte] < 0) missing_bytes_ += static_cast<char>(byte);
    }

    void encode(std::string_view text, std::vector<std::int32_t>& out,
                std::vector<std::size_t>* begins) const override {
        check_bytes(text);
        std::size_t at = 0;  // of the text, where the next part or token begins
        const auto take_id = [&out](std::int32_t id) { out.push_back(id); };
        const auto take_raw_id = [&](std::int32_t id) {
            out.push_back(id);
            if (begins != nullptr) begins->push_back(at);
            at += sizes_[static_cast<std::size_t>(id)];
        };
        caches_.with_cache([&](WordCache& cache) {
            std::string buffer;
            std::vector<NormalizedPart> parts;
            const auto encode_normalized = [&](std::string_view part) {
                encode_words(part, cache, out);
            };
            const auto encode_raw = [&](std::string_view part) {
                const std::size_t first = out.size();
                parts = {{.begin = 0, .original = 0, .same = true}};
                const std::string_view normal =
                    nfc_ ? normalize_nfc(part, buffer, begins != nullptr ? &parts : nullptr) : part;
                normalized_added_.split(normal, encode_normalized, take_id);
                if (begins != nullptr)
                    add_begins(std::span(out).subspan(first), parts, at, *begins);
                at += part.size();
            };
            raw_added_.split(text, encode_raw, take_raw_id);
        });
    }

private:
    /// Appends where tokens begin that spell a part of a text, which begins at byte `at`.
    void add_begins(std::span<const std::int32_t> ids, std::span<const NormalizedPart> parts,
                    std::size_t at, std::vector<std::size_t>& begins) const {
        std::size_t normal = 0;
        for (const std::int32_t id : ids) {
            while (parts.size() > 1 && parts[1].begin <= normal)
                parts = parts.subspan(1);
            const std::size_t inside = parts[0].same ? normal - parts[0].begin : 0;
            begins.push_back(at + parts[0].original + inside);
            normal += sizes_[static_cast<std::size_t>(id)];
        }
    }

    static std::optional<std::int32_t> id_of_added(const BpeDescription& description,
                                                   std::string_view content) {
        for (const AddedToken& token : description.added)
            if (token.content == content) return token.id;
        return std::nullopt;
    }

    /// Some vocabularies lack control characters: no id could stand for them.
    void check_bytes(std::string_view text) const {
        if (missing_bytes_.empty()) return;
        const std::size_t at = text.find_first_of(missing_bytes_);
        if (at == text.npos) return;
        fail(ExitCode::bad_input, "the tokenizer has no token for byte ",
             int{static_cast<unsigned char>(text[at])}, " of the text");
    }

    void encode_words(std::string_view text, WordCache& cache,
                      std::vector<std::int32_t>& out) const {
        const char* const end = text.data() + text.size();
        for_each_word(text, splitters_, [&](std::string_view word) {
            if (word.size() == 1)
                return out.push_back(byte_ids_[static_cast<unsigned char>(word[0])]);
            if (word.size() > WordCache::max_bytes) return encode_word(word, out);
            const WordCache::Key key(word, end);
            if (const auto ids = cache.find(key); !ids.empty()) {
                out.insert(out.end(), ids.begin(), ids.end());
                return;
            }
            const std::size_t begin = out.size();
            encode_word(word, out);
            cache.add(key, std::span(out).subspan(begin));
        });
    }

    void encode_word(std::string_view word, std::vector<std::int32_t>& out) const {
        if (!whole_words_.empty()) {
            const auto found = whole_words_.find(word);
            if (found != whole_words_.end()) {
                out.push_back(found->second);
                return;
            }
        }
        merges_.encode(word, out);
    }

    AddedTokens raw_added_;
    AddedTokens normalized_added_;
    std::array<std::int32_t, 256> byte_ids_;
    std::vector<std::size_t> sizes_;  ///< bytes of text that each token stands for
    std::string missing_bytes_;
    BpeMerges merges_;
    std::vector<Splitter> splitters_;
    bool nfc_;
    /// If they are not merged.
    std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> whole_words_;
    mutable WordCaches caches_;
};

}  // namespace

std::unique_ptr<TokenModel> load_bpe_model(std::string_view json, const std::string& source,
                                           std::string_view eos_token) {
    return std::make_unique<BpeModel>(parse_tokenizer_json(json, source), eos_token);
}

}  // namespace gptrain
