// tokenizer.json, the format of the library `tokenizers`: byte-level BPE.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/bpe_merges.h"
#include "tokenizer/pre_tokenizer.h"

namespace gptrain {

struct AddedToken {
    std::string content;
    std::int32_t id = 0;
    bool special = false;     ///< a mark, not text
    bool normalized = false;  ///< found in normalized text, else in the text as it is
};

struct BpeToken {
    std::string bytes;
    bool spells_bytes = true;  ///< false: can only be found as an added token
};

/// The parts of such a file that define encoding and decoding. Post-processors add tokens around a
/// text; only their first token is kept. Settings of padding and truncation are not applied.
struct BpeDescription {
    std::vector<BpeToken> tokens;  ///< by id, the added ones included
    std::vector<BpeMerge> merges;
    std::array<std::int32_t, 256> byte_ids{};  ///< by byte; -1: no token, so left out of texts
    std::vector<AddedToken> added;
    bool ignore_merges = false;  ///< a word that is a token is not merged
    bool nfc = false;            ///< texts are normalized first
    std::vector<Splitter> splitters;
    std::int32_t prefix = -1;  ///< the token that a post-processor puts before a text, if any
};

/// True if a tokenizer's bytes are a tokenizer.json rather than a sentencepiece model.
bool is_tokenizer_json(std::string_view bytes);

/// The special token that the post-processor of a tokenizer.json puts before a text; empty if there
/// is none.
std::string prefix_token(const Json& tokenizer_json);

/// Errors (bad_input) begin with `source` and name the key: bad JSON, an inconsistent vocabulary, a
/// kind of model or a setting that gptrain does not support.
BpeDescription parse_tokenizer_json(std::string_view json, const std::string& source);

/// The file of a description whose splitters are one of gpt2, llama3 or qwen2.
std::string to_tokenizer_json(const BpeDescription& description);

}  // namespace gptrain
