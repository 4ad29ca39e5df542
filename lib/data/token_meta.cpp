#include "data/token_meta.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

namespace gptrain {
namespace {

constexpr std::string_view format_name = "gptrain token files";
constexpr std::int64_t max_bytes = 64 << 10;
constexpr std::size_t max_value_bytes = 1024;

std::int64_t integer_in(const JsonReader& reader, std::string_view key, std::int64_t high,
                        const std::string& source) {
    const std::int64_t value = reader.integer(key);
    if (value < 0 || value > high) {
        fail(ExitCode::bad_input, source, ": '", key, "' is out of range: ", value);
    }
    return value;
}

std::string word_in(const JsonReader& reader, std::string_view key, const std::string& source) {
    const std::string& word = reader.string(key);
    const bool plain =
        !word.empty() && word.size() <= max_value_bytes &&
        std::none_of(word.begin(), word.end(), [](unsigned char c) { return c < 32 || c == 127; });
    if (!plain) {
        fail(ExitCode::bad_input, source, ": '", key, "' must be one line of 1 to ",
             max_value_bytes, " bytes");
    }
    return word;
}

MaskMeta mask_in(const Json& json, std::int64_t tokens, const std::string& source) {
    const std::string inner = source + ": mask";
    const JsonReader reader(json, inner);
    reader.allow_only({"crc32c", "learned"});
    return {.crc32c = static_cast<std::uint32_t>(integer_in(reader, "crc32c", 0xffffffff, inner)),
            .learned = integer_in(reader, "learned", tokens, inner)};
}

WeightsMeta weights_in(const Json& json, std::int64_t learned, const std::string& source) {
    const std::string inner = source + ": weights";
    const JsonReader reader(json, inner);
    reader.allow_only({"crc32c", "runs"});
    return {.crc32c = static_cast<std::uint32_t>(integer_in(reader, "crc32c", 0xffffffff, inner)),
            .runs = integer_in(reader, "runs", learned, inner)};
}

}  // namespace

std::filesystem::path meta_path(const std::filesystem::path& prefix) {
    return prefix.string() + ".meta.json";
}

std::string to_text(const TokenMeta& meta) {
    Json json = {{"format", format_name},
                 {"version", 1},
                 {"tokenizer",
                  {{"file", meta.tokenizer_file},
                   {"crc32c", meta.tokenizer_crc32c},
                   {"vocab_size", meta.vocab_size}}},
                 {"append_eod", meta.append_eod},
                 {"documents", meta.documents},
                 {"tokens", meta.tokens},
                 {"program", meta.program}};
    if (meta.mask) json["mask"] = {{"crc32c", meta.mask->crc32c}, {"learned", meta.mask->learned}};
    if (meta.weights)
        json["weights"] = {{"crc32c", meta.weights->crc32c}, {"runs", meta.weights->runs}};
    return to_line(json) + "\n";
}

TokenMeta parse_token_meta(std::string_view json, const std::string& source) {
    const Json root = parse_json(json, source);
    const JsonReader reader(root, source);
    if (reader.string("format") != format_name) {
        fail(ExitCode::bad_input, source, ": 'format' must be \"", format_name, "\"");
    }
    if (reader.integer("version") != 1) {
        fail(ExitCode::bad_input, source, ": unsupported version ", reader.integer("version"),
             " (this program reads version 1); use a newer program");
    }
    reader.allow_only({"format", "version", "tokenizer", "append_eod", "documents", "tokens",
                       "program", "mask", "weights"});
    const std::string inner = source + ": tokenizer";
    const JsonReader tokenizer(reader.object("tokenizer"), inner);
    tokenizer.allow_only({"file", "crc32c", "vocab_size"});
    constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
    TokenMeta meta;
    meta.tokenizer_file = word_in(tokenizer, "file", inner);
    meta.tokenizer_crc32c =
        static_cast<std::uint32_t>(integer_in(tokenizer, "crc32c", 0xffffffff, inner));
    meta.vocab_size =
        integer_in(tokenizer, "vocab_size", std::numeric_limits<std::int32_t>::max(), inner);
    meta.append_eod = reader.boolean("append_eod");
    meta.documents = integer_in(reader, "documents", largest, source);
    meta.tokens = integer_in(reader, "tokens", largest, source);
    meta.program = word_in(reader, "program", source);
    if (reader.has("mask")) meta.mask = mask_in(reader.object("mask"), meta.tokens, source);
    if (!reader.has("weights")) return meta;
    if (!meta.mask) fail(ExitCode::bad_input, source, ": has 'weights' but no 'mask'");
    meta.weights = weights_in(reader.object("weights"), meta.mask->learned, source);
    return meta;
}

std::optional<TokenMeta> read_token_meta(const std::filesystem::path& prefix) {
    const std::filesystem::path path = meta_path(prefix);
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (status.type() == std::filesystem::file_type::not_found) return std::nullopt;
    return parse_token_meta(read_file(path, max_bytes), path.string());
}

std::string tokenizer_text(const TokenMeta& meta) {
    return text(meta.tokenizer_file, " (CRC-32C ", meta.tokenizer_crc32c, ")");
}

std::string describe(const TokenMeta& meta) {
    return text(tokenizer_text(meta), ", ", meta.vocab_size, " pieces, ",
                meta.append_eod ? "with end-of-document ids" : "without end-of-document ids",
                ", by ", meta.program);
}

void check_tokenizer(const std::filesystem::path& prefix, const TokenMeta& meta,
                     const ExpectedTokenizer& expected) {
    if (text(meta.tokenizer_crc32c) == expected.fingerprint) return;
    fail(ExitCode::usage, prefix.string(), " was not tokenized with ", expected.name, " (CRC-32C ",
         expected.fingerprint, "): its .meta.json names ", tokenizer_text(meta),
         "; use the matching tokenizer or token files");
}

void report_unknown_tokenizer(std::string_view sources, const ExpectedTokenizer& expected) {
    print("data: ", sources, ": no .meta.json, so gptrain cannot check that ", expected.name,
          " made the tokens; using them anyway");
}

}  // namespace gptrain
