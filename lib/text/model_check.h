// What a sentencepiece model file (the protocol buffer ModelProto) must hold before the library may
// see it: the packaged versions (below 0.2.2) read out of bounds or overflow the stack on crafted
// files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
    std::string_view text;  ///< points into the checked bytes
    PieceType type = PieceType::normal;
};

/// U+2581, which stands for a blank inside of pieces.
constexpr std::string_view escaped_blank = "\xE2\x96\x81";

/// The text with true blanks.
std::string unescape_blanks(std::string_view text);

/// What a checked model says of itself.
struct ModelFacts {
    std::vector<ModelPiece> pieces;
    bool add_dummy_prefix = true;
    bool remove_extra_whitespaces = true;
    std::string unknown_surface = " \xE2\x81\x87 ";  ///< what the unknown piece decodes to
    /// The checked parts alone: pieces, trainer spec, normaliser spec. The library is given these;
    /// stored self-tests (text that it would run) and fields unknown to us stay out.
    std::string checked;
};

/// Checks the bytes of a model file. Refused as Error (bad_input) that names `source` and the
/// fault: plain text; fields that are cut off or of the wrong kind; no piece or more than 2^20; a
/// piece that is empty, longer than 4 KiB, not UTF-8, holds a NUL or occurs twice; scores that are
/// not finite; unknown piece or model types; ids outside of the vocabulary; more than 64
/// user-defined pieces that are prefixes of one another; a broken normaliser table
/// (charsmap_check.h); a denormaliser.
ModelFacts check_model(std::string_view model, std::string_view source);

}  // namespace gptrain
