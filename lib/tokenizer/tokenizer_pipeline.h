// The steps around the model in a tokenizer.json: normalizer, pre_tokenizer and decoder.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "tokenizer/tokenizer_description.h"

namespace gptrain {

/// Fills the description's steps and the kind of its symbols. Errors (bad_input) begin with
/// `source` and name the key and what gptrain does not support.
void read_pipeline(const Json& file, const std::string& source, TokenizerDescription& description);

/// Refuses what `part` of a file has. Error (bad_input).
[[noreturn]] void refuse_kind(const std::string& source, std::string_view part,
                              std::string_view kind);

/// Text from a file, for a message: on one line and truncated.
std::string shown(std::string_view word);

/// True if the key is missing or null.
bool is_absent(const Json& object, const char* key);

}  // namespace gptrain
