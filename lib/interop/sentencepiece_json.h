// tokenizer.json of Hugging Face's tokenizers, made of a sentencepiece model.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "interop/hf_config.h"

namespace gptrain {

/// The texts of special tokens; empty where there is none.
struct SpecialTokens {
    std::string_view unk = {};
    std::string_view bos = {};
    std::string_view eos = {};
};

/// A tokenizer_config.json. `max_length`: of a text.
std::string tokenizer_config(const SpecialTokens& tokens, std::int64_t max_length);

/// The tokenizer_config.json with which transformers reads a sentencepiece model of Llama's kind:
/// BPE with byte pieces that prepends a space and changes nothing else. Empty for other models.
std::optional<std::string> llama_tokenizer_config(std::string_view model, const std::string& source,
                                                  std::int64_t max_length);

/// The tokenizer files of a sentencepiece model.
struct TokenizerFiles {
    std::string tokenizer_json;
    std::string tokenizer_config;
    SpecialIds ids;
};

/// Files that encode and decode exactly as the model does, for unigram and BPE models that keep
/// text as it is, as gpt-preprocess trains them; only the text of a special piece, such as "</s>",
/// becomes its id. Empty for other models, which need their own normalisation. `max_length`: of a
/// text. Error (bad_input) that names `source` for a faulty model.
std::optional<TokenizerFiles> tokenizer_files(std::string_view model, const std::string& source,
                                              std::int64_t max_length);

}  // namespace gptrain
