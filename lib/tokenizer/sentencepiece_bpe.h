// A BPE model of sentencepiece in the form of a tokenizer.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "tokenizer/model_check.h"

namespace gptrain {

/// The id of the unknown piece; nothing if there is none.
std::optional<std::size_t> unknown_piece(const CheckedModel& model);

/// The "model": every split of a piece into two pieces is a merge, best score first.
Json bpe_model_json(const CheckedModel& model, std::string_view unknown);

/// The "added_tokens": the control, unknown and user-defined pieces.
Json piece_tokens_json(const CheckedModel& model);

/// Adds tokens to a model of Llama's kind (BPE with byte pieces that changes only spaces), as the
/// class LlamaTokenizer of transformers does. `added`, in the form of added_tokens, has at least
/// one token beyond the pieces; `legacy`: a space comes before each part of a text between these
/// tokens, not only at its start. Error (bad_input) that names `source`: another kind of model, or
/// the name of another piece.
std::string convert_sentencepiece(const CheckedModel& model, const Json& added, bool legacy,
                                  const std::string& source);

}  // namespace gptrain
