// BPE and WordPiece: a TokenModel of a tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/token_model.h"

namespace gptrain {

/// Equal ids to those of the library `tokenizers` without its post-processor: added tokens are
/// found as they are spelled, the rest is normalized, split into words and merged. Special tokens
/// decode to nothing. Bytes that have no token are left out of texts by byte-level BPE, which a
/// warning reports once.
/// The end of a document is the added token <|endoftext|>, else <|end_of_text|>, else `eos_token`
/// (which may be empty); the mask token is an added token, too. Errors are those of
/// parse_tokenizer_json.
std::unique_ptr<TokenModel> load_bpe_model(std::string_view json, const std::string& source,
                                           std::string_view eos_token);

}  // namespace gptrain
