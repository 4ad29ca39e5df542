// Validates a sentencepiece model file (the protocol buffer ModelProto) before the library sees it:
// the packaged versions (below 0.2.2) read out of bounds or overflow the stack on crafted files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/space_marks.h"

namespace gptrain {

enum class PieceType : std::uint8_t {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6,
};

struct ModelPiece {
    std::string_view text;  ///< points into the validated bytes
    PieceType type = PieceType::normal;
    float score = 0;
};

enum class PieceModel : std::uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };

/// The text with real spaces.
std::string unescape_spaces(std::string_view text);

/// Properties of a validated model.
struct CheckedModel {
    std::vector<ModelPiece> pieces;
    PieceModel model = PieceModel::unigram;
    std::int64_t bos_id = 1;  ///< -1: none, as the next one
    std::int64_t eos_id = 2;
    bool byte_fallback = false;  ///< text that no other piece covers is spelled with byte pieces
    bool add_dummy_prefix = true;
    bool remove_extra_whitespaces = true;
    bool escape_whitespaces = true;                  ///< pieces have U+2581 for a space
    bool has_charsmap = false;                       ///< a table normalises the text
    std::string unknown_surface = " \xE2\x81\x87 ";  ///< decoded form of the unknown piece
    /// Only the validated parts: pieces, trainer spec, normaliser spec. The library receives these,
    /// without stored self-tests (text that it would run) and fields unknown to us.
    std::string checked;
};

/// Validates the bytes of a model file. Throws Error (bad_input) that names `source` and the fault
/// for: plain text; truncated fields or fields of the wrong type; no pieces, or more than 2^20; a
/// piece that is empty, longer than 4 KiB, not UTF-8, a duplicate or contains NUL; scores that are
/// not finite; unknown piece or model types; ids outside the vocabulary; more than 64 user-defined
/// pieces that are prefixes of one another; a broken normaliser table (charsmap_check.h); a
/// denormaliser.
CheckedModel check_model(std::string_view model, std::string_view source);

}  // namespace gptrain
