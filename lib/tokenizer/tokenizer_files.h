// Other files of byte-level BPE, converted to an equivalent tokenizer.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_token_files.h"
#include "tokenizer/pre_tokenizer.h"

namespace gptrain {

/// True for the names vocab.json, merges.txt, encoder.json and vocab.bpe.
bool named_vocabulary(const std::filesystem::path& path);

/// The tokenizer.json of vocab.json and merges.txt (GPT-2: encoder.json and vocab.bpe); `path` is
/// one of the two. If the folder has a tokenizer_config.json, that distinguishes GPT-2 from Qwen2
/// and lists the added tokens; otherwise they are GPT-2's and those of an added_tokens.json,
/// special if special_tokens_map.json names them. Errors (bad_input) name the file.
std::string convert_vocabulary(const std::filesystem::path& path, std::int64_t max_bytes);

/// The same from contents. The last three may be missing; a missing one has an empty name.
struct VocabularyFiles {
    NamedText vocabulary;
    NamedText merges;
    NamedText config = {};
    NamedText added = {};    ///< added_tokens.json
    NamedText special = {};  ///< special_tokens_map.json
};
std::string convert_vocabulary(const VocabularyFiles& files);

/// True if the text begins like a file of tiktoken: base64 of a token, a space, its rank.
bool is_tiktoken(std::string_view bytes);

/// The tokenizer.json of a tiktoken file. Its number of ranks determines the kind: GPT-2, Llama 3
/// or Qwen. Errors (bad_input) begin with `source`: a faulty line, or another number.
std::string convert_tiktoken(std::string_view bytes, const std::string& source);

/// The same for a file of any number of ranks.
struct TiktokenFamily {
    Splitter splitter = Splitter::gpt2;
    bool nfc = false;
    std::vector<std::string> specials;  ///< their ids follow the ranks
};
std::string convert_tiktoken(std::string_view bytes, const std::string& source,
                             const TiktokenFamily& family);

}  // namespace gptrain
