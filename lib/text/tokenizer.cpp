#include "text/tokenizer.h"

#include <algorithm>
#include <sentencepiece_processor.h>
#include <utility>

#include "base/checked.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "text/model_check.h"
#include "text/utf8.h"

namespace gptrain {
namespace {

// Long texts are encoded in parts: the library needs about 60 bytes of memory for a byte of text,
// and sums scores in fp32, so its choice of pieces gets worse with length.
constexpr std::size_t good_part_bytes = std::size_t{64} << 10;
constexpr std::size_t max_part_bytes = std::size_t{8} << 20;

struct DecodedPiece {
    PieceType type = PieceType::normal;
    std::string bytes;
};

int hex_digit(char digit) {
    return digit <= '9' ? digit - '0' : digit - 'A' + 10;
}

DecodedPiece decoded(const ModelPiece& piece, const std::string& unknown_surface) {
    switch (piece.type) {
        case PieceType::control: return {piece.type, ""};
        case PieceType::unknown: return {piece.type, unknown_surface};
        case PieceType::byte:
            // The library accepted the model, so the piece has the form <0xHH>.
            return {piece.type, std::string(1, static_cast<char>(hex_digit(piece.text[3]) * 16 +
                                                                 hex_digit(piece.text[4])))};
        default: return {piece.type, unescape_spaces(piece.text)};
    }
}

std::optional<std::int32_t> optional_id(int id) {
    return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
}

bool is_word_start(std::string_view text, std::size_t at) {
    return text[at] == ' ' && text[at - 1] != ' ';
}

/// Length of the first part of a long text: up to a space after a word, else up to a character.
std::size_t part_length(std::string_view text) {
    for (std::size_t end = good_part_bytes; end < std::min(text.size(), max_part_bytes); ++end)
        if (is_word_start(text, end)) return end;
    if (text.size() <= max_part_bytes) return text.size();
    std::size_t end = max_part_bytes;
    while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
        --end;
    return end;
}

/// True if each word is encoded independently, so that texts can be split before words.
bool encodes_words_independently(const CheckedModel& facts,
                                 const std::vector<DecodedPiece>& pieces) {
    if (facts.add_dummy_prefix || facts.remove_extra_whitespaces) return false;
    for (const DecodedPiece& piece : pieces)
        for (std::size_t at = 1; at < piece.bytes.size(); ++at)
            if (piece.type != PieceType::unknown && is_word_start(piece.bytes, at)) return false;
    return true;
}

}  // namespace

struct Tokenizer::Model {
    sentencepiece::SentencePieceProcessor processor;
    std::vector<DecodedPiece> pieces;
    bool encodes_words_independently = false;
    bool add_dummy_prefix = false;
    bool remove_extra_whitespaces = false;
    std::uint32_t fingerprint = 0;
    std::string source;  ///< the model's name in messages

    const DecodedPiece& piece(std::int32_t id) const {
        if (id < 0 || id >= std::ssize(pieces)) {
            fail(ExitCode::bad_input, "token id ", id, " is outside the tokenizer's vocabulary of ",
                 pieces.size());
        }
        return pieces[static_cast<std::size_t>(id)];
    }
};

std::string read_tokenizer(const std::filesystem::path& model) {
    std::string bytes = read_file(model, max_tokenizer_bytes);
    if (named_yaml(model)) {
        fail(ExitCode::usage, model.string(),
             ": is a YAML file, not a tokenizer; give a sentencepiece model (.model)");
    }
    return bytes;
}

Tokenizer::Tokenizer(const std::filesystem::path& model)
    : Tokenizer(read_tokenizer(model), model.string()) {}

Tokenizer::Tokenizer(std::string_view model, const std::string& source) {
    const CheckedModel facts = check_model(model, source);
    auto loaded = std::make_unique<Model>();
    const auto status = loaded->processor.LoadFromSerializedProto(facts.checked);
    if (!status.ok()) {
        fail(ExitCode::bad_input, source, ": sentencepiece rejects the model: ", status.message());
    }
    for (const ModelPiece& piece : facts.pieces)
        loaded->pieces.push_back(decoded(piece, facts.unknown_surface));
    loaded->encodes_words_independently = encodes_words_independently(facts, loaded->pieces);
    loaded->add_dummy_prefix = facts.add_dummy_prefix;
    loaded->remove_extra_whitespaces = facts.remove_extra_whitespaces;
    loaded->fingerprint = crc32c(model.data(), model.size());
    loaded->source = source;
    model_ = std::move(loaded);
}

Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::int64_t Tokenizer::vocab_size() const {
    return std::ssize(model_->pieces);
}

std::optional<std::int32_t> Tokenizer::bos_id() const {
    return optional_id(model_->processor.bos_id());
}

std::optional<std::int32_t> Tokenizer::eos_id() const {
    return optional_id(model_->processor.eos_id());
}

std::uint32_t Tokenizer::fingerprint() const {
    return model_->fingerprint;
}

void Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out) const {
    if (const auto at = find_invalid_utf8(text); at != std::string_view::npos) {
        fail(ExitCode::bad_input, "the text is not UTF-8 at byte ", at);
    }
    std::vector<int> ids;
    while (!text.empty()) {
        const std::size_t length =
            model_->encodes_words_independently ? part_length(text) : text.size();
        ids.reserve(length / 2);  // the library appends one by one
        const auto status = model_->processor.Encode(text.substr(0, length), &ids);
        if (!status.ok()) {
            fail(ExitCode::bad_input, model_->source,
                 ": sentencepiece cannot encode with this model: ", status.message());
        }
        out.insert(out.end(), ids.begin(), ids.end());
        text.remove_prefix(length);
    }
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
    StreamDecoder decoder(*this);
    std::string text;
    for (const std::int32_t id : ids)
        text += decoder.push(id);
    return text + decoder.finish();
}

std::string StreamDecoder::push(std::int32_t id) {
    const DecodedPiece& piece = model_.piece(id);
    if (piece.type == PieceType::byte) {
        pending_ += piece.bytes;
        std::string text = complete_characters();
        if (!text.empty()) at_start_ = false;
        return text;
    }
    std::string text = finish();
    std::string_view bytes = piece.bytes;
    const bool adds_blanks = model_.add_dummy_prefix || model_.remove_extra_whitespaces;
    const bool is_text = piece.type != PieceType::unknown;
    if (at_start_ && adds_blanks && is_text && text.empty() && bytes.starts_with(' ')) {
        bytes.remove_prefix(1);
        at_start_ = model_.remove_extra_whitespaces;
    }
    text += bytes;
    if (!text.empty()) at_start_ = false;
    return text;
}

std::string StreamDecoder::finish() {
    std::string text = complete_characters();
    for (; !pending_.empty(); pending_.pop_back())
        text += replacement_character;
    return text;
}

std::string StreamDecoder::complete_characters() {
    std::string text;
    std::string_view rest = pending_;
    while (!rest.empty()) {
        const Utf8Step step = utf8_step(rest);
        if (step.kind == Utf8::incomplete) break;
        text += step.kind == Utf8::valid ? rest.substr(0, step.bytes) : replacement_character;
        rest.remove_prefix(step.bytes);
    }
    pending_ = std::string(rest);
    return text;
}

}  // namespace gptrain
