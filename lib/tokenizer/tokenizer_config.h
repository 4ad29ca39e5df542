// The tokenizer_config.json that lies next to a tokenizer.
#pragma once

#include <filesystem>
#include <string>

#include "base/json.h"

namespace gptrain {

/// The text of a special token in its JSON, such as bos_token; empty if it has none.
std::string token_in_config(const Json& config, const std::string& source, const std::string& key);
/// The same of `eos_token` in the file next to `tokenizer`; "" without that file.
std::string configured_eos_token(const std::filesystem::path& tokenizer);

}  // namespace gptrain
