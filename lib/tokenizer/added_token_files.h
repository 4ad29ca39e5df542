// Tokens that other files add to a tokenizer: added_tokens.json and tokenizer_config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/json.h"

namespace gptrain {

/// A file's contents, and its name in errors.
struct NamedText {
    std::string bytes;
    std::string source;
};

/// A file of a folder; without a name if there is none.
NamedText file_in(const std::filesystem::path& folder, const char* name);
/// Its JSON; an empty object without one.
Json object_in(const NamedText& file);

/// An entry of added_tokens in a tokenizer.json.
Json added_token(std::string_view content, std::int64_t id, bool special);

/// The added_tokens_decoder of a tokenizer_config.json, as the added_tokens of a tokenizer.json:
/// [{"id", "content", "special", ...}]. Errors (bad_input) begin with `source`.
Json added_tokens_of(const Json& config, const std::string& source);

/// The same of an added_tokens.json, special if a special_tokens_map.json names them. A file
/// without a name is missing.
Json added_tokens_of(const NamedText& added, const NamedText& special);

/// The tokens that files next to a sentencepiece model add, and those that they name among its
/// `pieces`; empty if they add none but one for padding, which occurs in no text. Errors
/// (bad_input) name the file.
struct TokensOfModel {
    Json added = Json::array();
    bool legacy = false;  ///< a space comes before each part of a text between them
};
TokensOfModel tokens_added_to(const std::filesystem::path& model, std::int64_t pieces);

}  // namespace gptrain
