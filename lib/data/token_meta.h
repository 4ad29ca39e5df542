// What is known of token files beside their bytes: PREFIX.meta.json, one JSON object:
//   "format": "gptrain token files", "version": 1
//   "tokenizer": {"file", "crc32c", "vocab_size"}: name of the model file, CRC-32C of its bytes
//   (its
//       fingerprint everywhere), pieces
//   "append_eod": whether every document that is not empty ends with the end-of-document id
//   "documents", "tokens": as in PREFIX.idx
//   "program": what wrote it, "gptrain 0.2.0"
// Token files of other tools have none; Megatron does not read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "data/indexed_dataset.h"

namespace gptrain {

struct TokenMeta {
    std::string tokenizer_file;
    std::uint32_t tokenizer_crc32c = 0;
    std::int64_t vocab_size = 0;
    bool append_eod = false;
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
    std::string program;

    bool operator==(const TokenMeta&) const = default;
};

/// PREFIX.meta.json.
std::filesystem::path meta_path(const std::filesystem::path& prefix);

/// The contents of the file.
std::string to_text(const TokenMeta& meta);

/// Reads the contents of such a file; `source` stands for it in messages. Whatever they hold, the
/// result has text of one line and numbers in range; else Error (bad_input) that names the key at
/// fault.
TokenMeta parse_token_meta(std::string_view json, const std::string& source);

/// What lies beside the data set; nothing where there is no such file. A faulty one, and one that
/// describes other token files (its counts differ), is an Error (bad_input).
std::optional<TokenMeta> read_token_meta(const IndexedDataset& tokens);

/// "tok.model (CRC-32C 123)".
std::string tokenizer_in(const TokenMeta& meta);

/// "tok.model (CRC-32C 123), 320 pieces, every document ended, by gptrain 0.2.0".
std::string describe(const TokenMeta& meta);

/// The tokenizer that token files should be made with.
struct ExpectedTokenizer {
    std::string name;         ///< what messages call it: "data.tokenizer /data/tok.model"
    std::string fingerprint;  ///< CRC-32C of the model file, in decimal
};

/// Error (usage) that names both tokenizers where the data set's meta names another one.
void check_tokenizer(const IndexedDataset& tokens, const TokenMeta& meta,
                     const ExpectedTokenizer& expected);

/// Says that `sources` are taken though no meta says what made them.
void tell_of_unknown_tokenizer(std::string_view sources, const ExpectedTokenizer& expected);

}  // namespace gptrain
