#include "tokenizer/sentencepiece_model.h"

#include <algorithm>
#include <sentencepiece_processor.h>
#include <span>

#include "base/utf8.h"
#include "tokenizer/model_check.h"
#include "tokenizer/protobuf_wire.h"

namespace gptrain {
namespace {

// Memory that the library takes for a byte of text, measured where each byte becomes a piece; in
// English it is about 60.
constexpr std::size_t library_bytes = 288;
// So long texts are encoded in parts. Besides, the library sums scores in fp32, so its choice of
// pieces gets worse with length.
constexpr std::size_t good_part_bytes = std::size_t{64} << 10;
constexpr std::size_t max_part_bytes = std::size_t{8} << 20;

int hex_digit(char digit) {
    return digit <= '9' ? digit - '0' : digit - 'A' + 10;
}

DecodedPiece decoded(const ModelPiece& piece, const std::string& unknown_surface) {
    switch (piece.type) {
        case PieceType::control: return {DecodedPiece::Kind::text, ""};
        case PieceType::unknown: return {DecodedPiece::Kind::unknown, unknown_surface};
        case PieceType::byte:
            // The library accepted the model, so the piece has the form <0xHH>.
            return {DecodedPiece::Kind::bytes,
                    std::string(1, static_cast<char>(hex_digit(piece.text[3]) * 16 +
                                                     hex_digit(piece.text[4])))};
        default: return {DecodedPiece::Kind::text, unescape_spaces(piece.text)};
    }
}

std::optional<std::int32_t> optional_id(int id) {
    return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
}

std::optional<std::int32_t> id_of_piece(const std::vector<ModelPiece>& pieces,
                                        std::string_view text) {
    const auto found = std::ranges::find(pieces, text, &ModelPiece::text);
    if (found == pieces.end()) return std::nullopt;
    return static_cast<std::int32_t>(found - pieces.begin());
}

bool is_word_start(std::string_view text, std::size_t at) {
    return text[at] == ' ' && text[at - 1] != ' ';
}

/// Length of the first part of a long text: up to a space after a word, else up to a character.
std::size_t part_length(std::string_view text) {
    for (std::size_t end = good_part_bytes; end < std::min(text.size(), max_part_bytes); ++end)
        if (is_word_start(text, end)) return end;
    if (text.size() <= max_part_bytes) return text.size();
    return character_start(text, max_part_bytes);
}

/// True if each word is encoded independently, so that texts can be split before words.
bool encodes_words_independently(const CheckedModel& facts,
                                 const std::vector<DecodedPiece>& pieces) {
    if (facts.add_dummy_prefix || facts.remove_extra_whitespaces) return false;
    for (const DecodedPiece& piece : pieces)
        for (std::size_t at = 1; at < piece.bytes.size(); ++at)
            if (piece.kind != DecodedPiece::Kind::unknown && is_word_start(piece.bytes, at))
                return false;
    return true;
}

/// The model without a space before each text.
std::string without_dummy_prefix(const std::string& model) {
    constexpr std::uint64_t normalizer_spec = 3, add_dummy_prefix = 3;
    std::string spec;
    append_varint_field(spec, add_dummy_prefix, 0);
    std::string changed = model;
    append_bytes_field(changed, normalizer_spec, spec);  // parsers merge it with the first one
    return changed;
}

/// True for pieces that stand for themselves in a text of a conversation.
bool is_spelled(const ModelPiece& piece) {
    const bool is_mark = piece.type == PieceType::control || piece.type == PieceType::unknown ||
                         piece.type == PieceType::user_defined;
    return is_mark && unescape_spaces(piece.text).find(' ') == std::string::npos;
}

class SentencePieceModel : public TokenModel {
public:
    SentencePieceModel(std::string_view bytes, const std::string& source) : source_(source) {
        const CheckedModel facts = check_model(bytes, source);
        load(whole_, facts.checked);
        if (facts.add_dummy_prefix) {
            continued_ = std::make_unique<sentencepiece::SentencePieceProcessor>();
            load(*continued_, without_dummy_prefix(facts.checked));
        }
        for (const ModelPiece& piece : facts.pieces)
            pieces.push_back(decoded(piece, facts.unknown_surface));
        for (std::size_t id = 0; id < facts.pieces.size(); ++id) {
            const ModelPiece& piece = facts.pieces[id];
            if (piece.type == PieceType::control)
                marks.emplace(static_cast<std::int32_t>(id), piece.text);
            if (is_spelled(piece))
                spelled_pieces.emplace_back(piece.text, static_cast<std::int32_t>(id));
        }
        bos_id = optional_id(whole_.bos_id());
        eos_id = optional_id(whole_.eos_id());
        for (const std::string_view mask : mask_spellings)
            if (!mask_id) mask_id = id_of_piece(facts.pieces, mask);
        strips_first_blank = facts.add_dummy_prefix;
        remove_extra_whitespaces = facts.remove_extra_whitespaces;
        has_charsmap_ = facts.has_charsmap;
        encodes_words_independently_ = encodes_words_independently(facts, pieces);
        if (!facts.byte_fallback || facts.has_charsmap || remove_extra_whitespaces) return;
        for (const ModelPiece& piece : facts.pieces)
            most_bytes = std::max(most_bytes, piece.text.size());
    }

    void encode(std::string_view text, std::vector<std::int32_t>& out,
                std::vector<std::size_t>* begins, TextStart start_of_text) const override {
        const bool continued = continued_ && start_of_text == TextStart::continued;
        const sentencepiece::SentencePieceProcessor& processor = continued ? *continued_ : whole_;
        std::vector<int> ids;
        const char* const start = text.data();
        while (!text.empty()) {
            const std::size_t length =
                encodes_words_independently_ ? part_length(text) : text.size();
            ids.reserve(length / 2);  // the library appends one by one
            const auto status = processor.Encode(text.substr(0, length), &ids);
            if (!status.ok()) {
                fail(ExitCode::bad_input, source_,
                     ": sentencepiece cannot encode with this model: ", status.message());
            }
            out.insert(out.end(), ids.begin(), ids.end());
            if (begins != nullptr) {
                add_begins(processor.EncodeAsImmutableProto(text.substr(0, length)), ids,
                           static_cast<std::size_t>(text.data() - start), *begins);
            }
            text.remove_prefix(length);
        }
    }

    std::int64_t encoding_bytes(std::string_view text) const override {
        std::size_t longest = 0;
        for (std::string_view rest = text; !rest.empty();) {
            const std::size_t length =
                encodes_words_independently_ ? part_length(rest) : rest.size();
            longest = std::max(longest, normalized_bytes(rest.substr(0, length)));
            rest.remove_prefix(length);
        }
        return static_cast<std::int64_t>(36 * text.size() + library_bytes * longest);
    }

private:
    void load(sentencepiece::SentencePieceProcessor& processor, const std::string& model) const {
        const auto status = processor.LoadFromSerializedProto(model);
        if (status.ok()) return;
        fail(ExitCode::bad_input, source_, ": sentencepiece rejects the model: ", status.message());
    }

    /// The most bytes that the library makes of a text. An ASCII character stays one byte; NFKC
    /// turns one byte of other characters into at most eleven.
    std::size_t normalized_bytes(std::string_view text) const {
        if (!has_charsmap_) return text.size();
        const auto ascii = static_cast<std::size_t>(
            std::count_if(text.begin(), text.end(), [](char byte) { return byte >= 0; }));
        return ascii + 11 * (text.size() - ascii);
    }

    /// The library maps its pieces back to the text before it was normalized.
    static void add_begins(const sentencepiece::ImmutableSentencePieceText& pieces_of_text,
                           std::span<const int> ids, std::size_t at,
                           std::vector<std::size_t>& begins) {
        GPTRAIN_CHECK(pieces_of_text.pieces_size() == ids.size(), ids.size());
        for (const auto& piece : pieces_of_text.pieces())
            begins.push_back(at + piece.begin());
    }

    sentencepiece::SentencePieceProcessor whole_;
    /// For texts that follow other tokens; null if a space comes before no text.
    std::unique_ptr<sentencepiece::SentencePieceProcessor> continued_;
    bool encodes_words_independently_ = false;
    bool has_charsmap_ = false;  ///< which normalizes texts
    std::string source_;
};

}  // namespace

std::unique_ptr<TokenModel> load_sentencepiece_model(std::string_view bytes,
                                                     const std::string& source) {
    return std::make_unique<SentencePieceModel>(bytes, source);
}

}  // namespace gptrain
