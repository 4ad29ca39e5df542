// The interface through which Tokenizer and StreamDecoder use any kind of tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"

namespace gptrain {

/// The place of a text that is encoded: at the start, or after other tokens.
enum class TextStart : std::uint8_t {
    whole,      ///< nothing: a model of sentencepiece may put a space before it
    continued,  ///< other tokens
};

/// How tokenizers spell the mask token of masked language modelling, the preferred way first.
constexpr std::string_view mask_spellings[] = {"[MASK]", "<mask>", "<|mask|>"};

/// The text or bytes that an id stands for.
struct DecodedPiece {
    enum class Kind : std::uint8_t {
        text,     ///< whole characters
        bytes,    ///< bytes that may be a part of a character
        unknown,  ///< what the encoder could not represent
    };
    Kind kind = Kind::text;
    std::string bytes;
};

/// A loaded tokenizer. All members are const and thread-safe.
class TokenModel {
public:
    TokenModel() = default;
    TokenModel(const TokenModel&) = delete;
    TokenModel& operator=(const TokenModel&) = delete;
    virtual ~TokenModel() = default;

    /// Appends the ids of a text that is valid UTF-8, and to `begins`, if given, the byte of the
    /// text at which each of them begins. A token of normalized text begins where the text that it
    /// was made of does.
    virtual void encode(std::string_view text, std::vector<std::int32_t>& out,
                        std::vector<std::size_t>* begins, TextStart start) const = 0;

    /// Bytes of memory that suffice to encode this text, its ids included.
    virtual std::int64_t encoding_bytes(std::string_view text) const = 0;

    /// An id outside the vocabulary is an Error (bad_input).
    const DecodedPiece& piece(std::int32_t id) const {
        if (id < 0 || id >= std::ssize(pieces)) {
            fail(ExitCode::bad_input, "token id ", id, " is outside the tokenizer's vocabulary of ",
                 pieces.size());
        }
        return pieces[static_cast<std::size_t>(id)];
    }

    std::vector<DecodedPiece> pieces;  ///< by id
    /// How special tokens, which decode to nothing, are spelled.
    std::unordered_map<std::int32_t, std::string> marks;
    /// Pieces that encoding takes for letters where a text spells them.
    std::vector<std::pair<std::string, std::int32_t>> spelled_pieces;
    std::optional<std::int32_t> bos_id;
    std::optional<std::int32_t> eos_id;
    std::optional<std::int32_t> mask_id;  ///< of the first of mask_spellings that it has
    /// The id of the special token that the file puts before each text. Encoding leaves it out.
    std::optional<std::int32_t> prefix_id;
    /// The most bytes of a text that one token can stand for; 0 without a bound, because encoding
    /// drops bytes or joins unknown ones.
    std::size_t most_bytes = 0;
    bool strips_first_blank = false;  ///< decoding removes a space at the start
    /// Pieces that decode to another text at the start.
    std::unordered_map<std::int32_t, std::string> first_texts;
    bool remove_extra_whitespaces = false;
};

}  // namespace gptrain
