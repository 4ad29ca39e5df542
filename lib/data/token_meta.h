// Facts about token files besides their bytes: PREFIX.meta.json, one JSON object:
//   "format": "gptrain token files", "version": 1
//   "tokenizer": {"file", "crc32c", "vocab_size"}: name of the model file, CRC-32C of its bytes
//       (its fingerprint everywhere), number of pieces
//   "append_eod": whether every nonempty document ends with the end-of-document id
//   "documents", "tokens": as in PREFIX.idx
//   "mask": {"crc32c", "learned"}, only where PREFIX.mask (loss_mask.h) belongs to the files: its
//       checksum and the number of learned tokens
//   "weights": {"crc32c", "runs"}, only next to "mask" and where PREFIX.weights (token_weights.h)
//       belongs to the files: its checksum and the number of its runs
//   "program": the program that wrote it, "gptrain 0.2.0"
// Token files of other tools have none; Megatron ignores it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace gptrain {

/// The loss mask of token files.
struct MaskMeta {
    std::uint32_t crc32c = 0;
    std::int64_t learned = 0;

    bool operator==(const MaskMeta&) const = default;
};

/// The weights of learned tokens.
struct WeightsMeta {
    std::uint32_t crc32c = 0;
    std::int64_t runs = 0;

    bool operator==(const WeightsMeta&) const = default;
};

struct TokenMeta {
    std::string tokenizer_file;
    std::uint32_t tokenizer_crc32c = 0;
    std::int64_t vocab_size = 0;
    bool append_eod = false;
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
    std::string program;
    std::optional<MaskMeta> mask = {};
    std::optional<WeightsMeta> weights = {};

    bool operator==(const TokenMeta&) const = default;
};

/// PREFIX.meta.json.
std::filesystem::path meta_path(const std::filesystem::path& prefix);

/// The contents of the file.
std::string to_text(const TokenMeta& meta);

/// Parses the file's contents; `source` names it in messages. Whatever they hold, the result has
/// one-line texts and numbers in range; otherwise Error (bad_input) that names the key at fault.
TokenMeta parse_token_meta(std::string_view json, const std::string& source);

/// Reads PREFIX.meta.json; nothing if there is none. A faulty one is an Error (bad_input).
/// IndexedDataset checks that it describes the token files next to it.
std::optional<TokenMeta> read_token_meta(const std::filesystem::path& prefix);

/// "tok.model (CRC-32C 123)".
std::string tokenizer_text(const TokenMeta& meta);

/// "tok.model (CRC-32C 123), 320 pieces, every document ended, by gptrain 0.2.0".
std::string describe(const TokenMeta& meta);

/// The tokenizer that token files should have been made with.
struct ExpectedTokenizer {
    std::string name;         ///< its name in messages: "data.tokenizer /data/tok.model"
    std::string fingerprint;  ///< CRC-32C of the model file, in decimal
};

/// If the data set's meta names another tokenizer: Error (usage) that names both.
void check_tokenizer(const std::filesystem::path& prefix, const TokenMeta& meta,
                     const ExpectedTokenizer& expected);

/// Prints that `sources` are used although no meta names their tokenizer.
void report_unknown_tokenizer(std::string_view sources, const ExpectedTokenizer& expected);

}  // namespace gptrain
