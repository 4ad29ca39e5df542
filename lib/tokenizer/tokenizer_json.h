// tokenizer.json, the format of the library `tokenizers`: BPE and WordPiece.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "tokenizer/tokenizer_description.h"

namespace gptrain {

/// True if a tokenizer's bytes are a tokenizer.json rather than a sentencepiece model.
bool is_tokenizer_json(std::string_view bytes);

/// The special token that the post-processor of a tokenizer.json puts before a text; empty if there
/// is none.
std::string prefix_token(const Json& tokenizer_json);

/// Errors (bad_input) begin with `source` and name the key: bad JSON, an inconsistent vocabulary, a
/// kind of model or a setting that gptrain does not support.
TokenizerDescription parse_tokenizer_json(std::string_view json, const std::string& source);

/// The file of byte-level BPE whose splitters are one of gpt2, llama3 or qwen2.
std::string to_tokenizer_json(const TokenizerDescription& description);

}  // namespace gptrain
