#include "data/token_meta.h"

#include <map>
#include <set>
#include <string>

#include "catch.h"
#include "data/token_files.h"

namespace gptrain {
namespace {

using namespace test;

// The text that the message on each file of the corpus must contain.
const std::map<std::string, std::string>& faults() {
    static const std::map<std::string, std::string> faults = {
        {"array", "must be a JSON object"},
        {"crc-fraction", "tokenizer: 'crc32c' must be an integer"},
        {"crc-negative", "tokenizer: 'crc32c' is out of range: -1"},
        {"crc-text", "tokenizer: 'crc32c' must be an integer"},
        {"crc-wide", "tokenizer: 'crc32c' is out of range: 4294967296"},
        {"cut", "not valid JSON"},
        {"deep", "nested deeper than 64 levels"},
        {"documents-above-64-bits", "'documents' must be an integer"},
        {"documents-fraction", "'documents' must be an integer"},
        {"documents-negative", "'documents' is out of range: -1"},
        {"empty", "not valid JSON"},
        {"eod-missing", "key 'append_eod' is missing"},
        {"eod-number", "'append_eod' must be true or false"},
        {"file-empty", "tokenizer: 'file' must be one line"},
        {"file-escape", "tokenizer: 'file' must be one line"},
        {"file-long", "tokenizer: 'file' must be one line"},
        {"file-missing", "tokenizer: key 'file' is missing"},
        {"file-newline", "tokenizer: 'file' must be one line"},
        {"file-nul-escape", "tokenizer: 'file' must be one line"},
        {"file-number", "tokenizer: 'file' must be a string"},
        {"format-missing", "key 'format' is missing"},
        {"format-other", "'format' must be \"gptrain token files\""},
        {"invalid-utf8", "not valid JSON"},
        {"key-twice", "duplicate key 'version'"},
        {"key-unknown", "unknown key 'extra'"},
        {"mask-crc-missing", "mask: key 'crc32c' is missing"},
        {"mask-crc-wide", "mask: 'crc32c' is out of range: 4294967296"},
        {"mask-learned-above-tokens", "mask: 'learned' is out of range: 9223372036854775807"},
        {"mask-learned-negative", "mask: 'learned' is out of range: -1"},
        {"mask-null", "'mask' must be an object"},
        {"mask-text", "'mask' must be an object"},
        {"mask-unknown-key", "mask: unknown key 'file'"},
        {"not-json", "not valid JSON"},
        {"nul", "not valid JSON"},
        {"program-empty", "'program' must be one line"},
        {"program-escape", "'program' must be one line"},
        {"tokenizer-missing", "key 'tokenizer' is missing"},
        {"tokenizer-text", "'tokenizer' must be an object"},
        {"tokenizer-unknown-key", "tokenizer: unknown key 'path'"},
        {"tokens-list", "'tokens' must be an integer"},
        {"tokens-missing", "key 'tokens' is missing"},
        {"tokens-negative", "'tokens' is out of range: -9000"},
        {"two-values", "not valid JSON"},
        {"version-2", "unsupported version 2"},
        {"version-text", "'version' must be an integer"},
        {"vocab-huge", "tokenizer: 'vocab_size' is out of range: 2147483648"},
        {"vocab-negative", "tokenizer: 'vocab_size' is out of range: -320"},
    };
    return faults;
}

TEST_CASE("hostile descriptions of token files are refused, and it is said why") {
    const std::filesystem::path corpus =
        std::filesystem::path(GPTRAIN_TEST_DATA) / "../corpus/tokenmeta";
    std::set<std::string> seen;
    for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
        const std::string name = entry.path().stem().string();
        CAPTURE(name);
        seen.insert(name);
        const std::string json = read_file(entry.path(), 1 << 20);
        if (name.starts_with("good")) {
            const TokenMeta meta = parse_token_meta(json, "m");
            CHECK(to_text(meta) == json);
            CHECK(meta.mask.has_value() == (name == "good-mask"));
            CHECK(tokenizer_text(meta) == "tok.model (CRC-32C 3808858755)");
            continue;
        }
        REQUIRE(faults().count(name) == 1);
        const std::string message =
            message_of(ExitCode::bad_input, [&] { parse_token_meta(json, "m"); });
        CHECK(message.rfind("m:", 0) == 0);
        CHECK(contains(message, faults().at(name)));
        CHECK_FALSE(contains(message, "\n"));
    }
    CHECK(seen.size() == faults().size() + 2);
}

TEST_CASE("a description belongs to its token files") {
    const TempFolder folder;
    write_tokens(folder / "a", counting(0, 10, 5));
    const auto opened = [&] { return IndexedDataset(folder / "a"); };
    CHECK_FALSE(opened().meta());
    TokenMeta meta = {"tok.model", 7, 320, true, 10, 50, "gptrain 0.1.0"};
    fill(folder / "a.meta.json", to_text(meta));
    CHECK(opened().meta() == meta);
    CHECK_NOTHROW(check_tokenizer("a", meta, {"data.tokenizer t", "7"}));
    CHECK(contains(message_of(ExitCode::usage,
                              [&] {
                                  check_tokenizer("a", meta, {"data.tokenizer t", "8"});
                              }),
                   "tok.model (CRC-32C 7)"));
    meta.tokens = 51;
    fill(folder / "a.meta.json", to_text(meta));
    CHECK(contains(message_of(ExitCode::bad_input, [&] { opened(); }),
                   "a.meta.json: describes 10 documents and 51 tokens"));
    fill(folder / "a.meta.json", std::string(100'000, ' '));
    CHECK(contains(message_of(ExitCode::bad_input, [&] { opened(); }), "limit"));
    std::filesystem::remove(folder / "a.meta.json");
    std::filesystem::create_directory(folder / "a.meta.json");
    CHECK(message_of(ExitCode::bad_input, [&] { opened(); }) != "");
}

}  // namespace
}  // namespace gptrain
