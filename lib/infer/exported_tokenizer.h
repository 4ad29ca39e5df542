// The tokenizer of an export, as the checkpoint has it or from a folder that the user names.
#pragma once

#include <filesystem>
#include <vector>

#include "infer/inference.h"
#include "interop/gguf_vocabulary.h"
#include "interop/hf_config.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {

/// For transformers: files, none if there is no tokenizer, and the ids of special tokens.
struct HfTokenizer {
    std::vector<NamedFile> files;
    SpecialIds ids;

    /// True if there is more than a chat template.
    bool is_there() const;
};

/// `from`: the folder; empty: the checkpoint. A sentencepiece model made by gpt-preprocess becomes
/// tokenizer.json, because transformers would misread it. A tokenizer_config.json names the class.
HfTokenizer hf_tokenizer(const InferenceRun& run, const std::filesystem::path& from);

/// Adds generation_config.json. That of an imported model is kept, and its ids take precedence; an
/// end of text that it lacks is added.
void add_generation_config(const InferenceRun& run, HfTokenizer& tokenizer);

/// For llama.cpp. Without bytes if there is no tokenizer that gptrain can use.
GgufTokenizer gguf_tokenizer(const InferenceRun& run, const std::filesystem::path& from);

}  // namespace gptrain
