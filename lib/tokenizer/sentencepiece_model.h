// A TokenModel of a sentencepiece model: unigram, BPE, word or character.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/token_model.h"

namespace gptrain {

/// Validates the bytes (model_check.h) and loads them. A faulty model is an Error (bad_input) that
/// begins with `source`. A model that passed but cannot encode a text gives such an Error then. If
/// the model encodes words independently (as models trained here do), text above 64 KiB is encoded
/// in parts, split before a word, or within a word of more than 8 MiB.
std::unique_ptr<TokenModel> load_sentencepiece_model(std::string_view bytes,
                                                     const std::string& source);

}  // namespace gptrain
