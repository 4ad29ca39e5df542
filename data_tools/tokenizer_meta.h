// The tokenizer's part of a .meta.json.
#pragma once

#include <filesystem>

#include "data/token_meta.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {

/// Names the tokenizer and this program. `tokenizer_file`: where it was read.
TokenMeta meta_of(const std::filesystem::path& tokenizer_file, const Tokenizer& tokenizer);

}  // namespace gptrain
