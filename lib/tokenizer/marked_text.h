// Texts of conversations, in which a template spells special tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {

/// The ids of a text, and the byte of it at which each begins.
struct LocatedIds {
    std::vector<std::int32_t> ids;
    std::vector<std::size_t> begins;
};

/// Encodes such texts as transformers does: of a sentencepiece model it finds the control, the
/// user-defined and the unknown piece as they are spelled, and the pieces that added_tokens_decoder
/// of a tokenizer_config.json names; the text between them is sentencepiece's. A model that puts a
/// space before a text puts it only at the beginning, or, with `legacy: true` in
/// tokenizer_config.json, also after each of these tokens, unless a space is already there. A
/// tokenizer.json finds its added tokens in all texts, so with it the ids are those of
/// Tokenizer::encode. All members are const and thread-safe.
class MarkedEncoder {
public:
    /// `config`: the tokenizer_config.json, an empty object without one; `source` names it in
    /// errors (bad_input). The tokenizer must outlive the encoder.
    MarkedEncoder(const Tokenizer& tokenizer, const Json& config, const std::string& source);

    LocatedIds encode(std::string_view text) const;

private:
    const Tokenizer& tokenizer_;
    AddedTokens marks_;
    bool space_after_marks_;
};

}  // namespace gptrain
