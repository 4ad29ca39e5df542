// A tokenizer as llama.cpp reads it.
#pragma once

#include <cstdint>
#include <string>

#include "interop/gguf_file.h"
#include "interop/hf_config.h"

namespace gptrain {

struct GgufTokenizer {
    std::string bytes;   ///< of a tokenizer.json or a sentencepiece model; empty: no tokenizer
    std::string source;  ///< names it in errors
    SpecialIds ids;
    bool add_bos = false;       ///< programs put bos before each text
    std::string chat_template;  ///< may be empty
};

/// Adds the tokenizer. Unused tokens fill the model's vocabulary up to `vocab`. llama.cpp finds the
/// same ids for byte-level BPE without NFC, for BPE of characters that it can merge by scores
/// (gguf_scores.h), and for BPE models of sentencepiece that do not normalise text. There are two
/// exceptions: it reads U+2581 as a space, and its patterns of o200k and tekken know the case of
/// ASCII letters only, and no marks. Error (usage) that names what llama.cpp
/// lacks; (bad_input) for a faulty tokenizer.
void add_gguf_vocabulary(const GgufTokenizer& tokenizer, std::int64_t vocab, GgufMetadata& to);

}  // namespace gptrain
