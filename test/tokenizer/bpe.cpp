// Byte-level BPE against the ids of the library `tokenizers` (make_bpe_fixture.py), and hostile
// files of test/corpus/tokenizerjson.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "catch.h"
#include "support/temp_folder.h"
#include "tokenizer/bpe_merges.h"
#include "tokenizer/support.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_files.h"
#include "tokenizer/tokenizer_json.h"
#include "unicode/unicode.h"

using namespace gptrain;
namespace fs = std::filesystem;

namespace {

const fs::path fixture = fs::path(GPTRAIN_TEST_DATA) / "bpe";
const fs::path hostile = fs::path(GPTRAIN_TEST_DATA).parent_path() / "corpus" / "tokenizerjson";

std::vector<Json> expected_lines() {
    std::vector<Json> lines = lines_of(fixture / "expected.jsonl");
    REQUIRE(lines.size() > 500);
    return lines;
}

/// RFC 4648, with padding.
std::string base64(std::string_view bytes) {
    constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(3, bytes.size()))) {
        std::uint32_t group = 0;
        for (std::size_t i = 0; i < 3; ++i)
            group = group << 8 | (i < bytes.size() ? static_cast<std::uint8_t>(bytes[i]) : 0u);
        for (std::size_t i = 0; i < 4; ++i)
            out += i <= bytes.size() ? digits[group >> (18 - 6 * i) & 63] : '=';
    }
    return out;
}

/// The ids by the definition: merge the leftmost pair of the lowest rank until there is none.
std::vector<std::int32_t> merged_slowly(std::vector<std::int32_t> ids,
                                        const std::vector<BpeMerge>& merges) {
    for (bool merged = true; merged;) {
        merged = false;
        for (const BpeMerge& merge : merges) {
            const auto is_pair = [&](std::int32_t left, std::int32_t right) {
                return left == merge.left && right == merge.right;
            };
            const auto at = std::adjacent_find(ids.begin(), ids.end(), is_pair);
            if (at == ids.end()) continue;
            *at = merge.whole;
            ids.erase(at + 1);
            merged = true;
            break;
        }
    }
    return ids;
}

}  // namespace

TEST_CASE("ids are those of the library tokenizers") {
    const std::string name =
        GENERATE("gpt2", "llama3", "qwen2", "digits", "digit_runs", "whole", "gaps");
    const Tokenizer tokenizer(fixture / (name + ".json"));
    for (int round = 0; round < 2; ++round) {  // the second finds words in the cache
        for (const Json& line : expected_lines()) {
            const auto& text = line.at("text").get_ref<const std::string&>();
            CAPTURE(name, text);
            const auto ids = ids_of(tokenizer, text);
            CHECK(ids == line.at(name).get<std::vector<std::int32_t>>());
            CHECK(tokenizer.least_tokens(text) <= std::ssize(ids));
        }
    }
}

TEST_CASE("bytes without a token are left out, and the others know where they begin") {
    const Tokenizer tokenizer(fixture / "gaps.json");
    std::vector<std::int32_t> ids;
    std::vector<std::size_t> begins;
    const std::string text =
        "Zebra\x13 \x14the\x13\x14re\x13Zo \x13"
        "added here<|mark|>\x13";
    std::string kept;
    tokenizer.encode(text, ids, begins);
    REQUIRE(begins.size() == ids.size());
    CHECK(ids == ids_of(tokenizer, text));
    CHECK(std::is_sorted(begins.begin(), begins.end()));
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const std::string piece = tokenizer.decode(std::span(ids).subspan(i, 1));
        CAPTURE(i, piece, begins[i]);
        CHECK(text[begins[i]] == (piece.empty() ? '<' : piece[0]));
        kept += piece;
    }
    CHECK(kept == "Zebra thereo added here");
    CHECK(ids_of(tokenizer, "\x13\x13").empty());
    CHECK(tokenizer.least_tokens(text) == 0);
    CHECK(Tokenizer(fixture / "gpt2.json").least_tokens(text) > 0);
}

TEST_CASE("the memory to encode a text grows with its longest word") {
    std::string words;
    for (int i = 0; i < 1000; ++i)
        words += " word";
    for (const char* name : {"gpt2", "qwen2"}) {
        const Tokenizer tokenizer(fixture / (std::string(name) + ".json"));
        CHECK(tokenizer.encoding_bytes(words) == 36 * 5000 + 96 * 5);
        CHECK(tokenizer.encoding_bytes(std::string(5000, 'w')) == (36 + 96) * 5000);
    }
}

TEST_CASE("normalization form C is that of the library tokenizers") {
    int changed = 0;
    for (const Json& line : expected_lines()) {
        std::string buffer;
        const auto& text = line.at("text").get_ref<const std::string&>();
        CAPTURE(text);
        CHECK(normalize_nfc(text, buffer) == line.at("nfc").get<std::string>());
        changed += line.at("nfc") != text;
    }
    CHECK(changed > 50);
}

TEST_CASE("decoding restores the text, without special tokens") {
    const Tokenizer tokenizer(fixture / "gpt2.json");
    for (const Json& line : expected_lines()) {
        auto text = line.at("text").get<std::string>();
        const std::string decoded = tokenizer.decode(ids_of(tokenizer, text));
        for (const std::string mark : {"<|endoftext|>", "<|mark|>x", "<|mark|>"}) {
            for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark))
                text.erase(at, mark.size());
        }
        CAPTURE(text);
        CHECK(decoded == text);
    }
}

TEST_CASE("a character may be spread over several ids") {
    const Tokenizer tokenizer(fixture / "gpt2.json");
    const std::string text = "a \xF0\x9F\x98\x80 b";
    StreamDecoder decoder(tokenizer);
    std::string shown;
    for (const std::int32_t id : ids_of(tokenizer, text)) {
        const std::string part = decoder.push(id);
        CHECK(find_invalid_utf8(part) == std::string::npos);
        shown += part;
    }
    CHECK(shown + decoder.finish() == text);
    const auto ids = ids_of(tokenizer, "\xF0\x9F\x98\x80");
    REQUIRE(ids.size() > 1);
    CHECK(find_invalid_utf8(tokenizer.decode(std::span(ids).first(1))) == std::string::npos);
}

TEST_CASE("short and long words are merged alike, whatever the ranks") {
    std::array<std::int32_t, 256> byte_ids{};
    for (int byte = 0; byte < 256; ++byte)
        byte_ids[static_cast<std::size_t>(byte)] = byte;
    std::uint32_t state = 5;
    const auto random = [&state](std::uint32_t below) {
        state = state * 1664525u + 1013904223u;
        return static_cast<std::int32_t>((state >> 8) % below);
    };
    for (int model = 0; model < 20; ++model) {
        // Merges of four letters and of earlier merges, in an order that training would not give.
        std::vector<BpeMerge> merges;
        const auto any = [&] {
            const std::int32_t i = random(4 + static_cast<std::uint32_t>(merges.size()));
            return i < 4 ? 'a' + i : 256 + i - 4;
        };
        for (int i = 0; i < 40; ++i)
            merges.push_back({any(), any(), 256 + i});
        for (std::size_t i = merges.size() - 1; i > 0; --i)
            std::swap(merges[i],
                      merges[static_cast<std::size_t>(random(static_cast<std::uint32_t>(i + 1)))]);
        // If pairs are equal, the last counts.
        std::vector<BpeMerge> unique;
        for (std::size_t i = 0; i < merges.size(); ++i) {
            const auto same = [&](const BpeMerge& other) {
                return other.left == merges[i].left && other.right == merges[i].right;
            };
            if (std::none_of(merges.begin() + static_cast<std::ptrdiff_t>(i) + 1, merges.end(),
                             same))
                unique.push_back(merges[i]);
        }
        const BpeMerges bpe(byte_ids, merges);
        for (const std::size_t length : {1u, 2u, 3u, 17u, 63u, 64u, 65u, 66u, 300u}) {
            std::string word;
            std::vector<std::int32_t> bytes;
            for (std::size_t i = 0; i < length; ++i) {
                bytes.push_back('a' + random(4));
                word += static_cast<char>(bytes.back());
            }
            std::vector<std::int32_t> ids;
            bpe.encode(word, ids);
            CAPTURE(model, length, word);
            CHECK(ids == merged_slowly(bytes, unique));
        }
    }
}

TEST_CASE("a word of a megabyte takes no quadratic time") {
    const Tokenizer tokenizer(fixture / "whole.json");
    std::string text;
    while (text.size() < (1 << 20))
        text += "the ofthe of andthat ";
    CHECK(tokenizer.decode(ids_of(tokenizer, text)) == text);
}

TEST_CASE("the end of a document is found by name, in the file or in tokenizer_config.json") {
    const Tokenizer tokenizer(fixture / "gpt2.json");
    const std::string mark = "<|endoftext|>";
    REQUIRE(tokenizer.eos_id());
    CHECK(ids_of(tokenizer, mark) == std::vector<std::int32_t>{*tokenizer.eos_id()});
    std::string json = read_file(fixture / "gpt2.json", max_tokenizer_bytes);
    for (auto at = json.find(mark); at != std::string::npos; at = json.find(mark))
        json.replace(at, mark.size(), "<|otherwise|>");
    CHECK(!Tokenizer(json, "other").eos_id());
    CHECK(Tokenizer(TokenizerFile{json, "other", "<|otherwise|>"}).eos_id() == tokenizer.eos_id());
    CHECK(!Tokenizer(TokenizerFile{json, "other", "<|nowhere|>"}).eos_id());
}

TEST_CASE("reading a folder of several tokenizers loads the one that it takes") {
    const test::TempFolder folder;
    const auto copy = [&](const char* from, const char* to) {
        std::filesystem::copy_file(fixture / from, folder.path() / to);
    };
    copy("gpt2.json", "tokenizer.json");
    CHECK(read_tokenizer(folder.path()).model == nullptr);
    copy("vocab.json", "vocab.json");
    TokenizerFile file = read_tokenizer(folder.path());
    const std::string name = file.source;
    file.bytes = "{}";  // not read again
    CHECK(ids_of(Tokenizer(file), "let there") == ids_of(Tokenizer(name), "let there"));
}

TEST_CASE("added_tokens.json adds tokens to vocab.json") {
    const auto file = [](const char* name) {
        return NamedText{read_file(fixture / name, max_tokenizer_bytes), name};
    };
    VocabularyFiles files = {.vocabulary = file("vocab.json"), .merges = file("merges.txt")};
    const Tokenizer plain(convert_vocabulary(files), "vocab.json");
    const auto first = static_cast<std::int32_t>(plain.vocab_size());
    files.added = {text(R"({"<|im_start|>": )", first, R"(, "<|x|>": )", first + 1, "}"), "added"};
    files.special = {R"({"additional_special_tokens": [{"content": "<|im_start|>"}]})", "special"};
    const Tokenizer tokenizer(convert_vocabulary(files), "vocab.json");
    CHECK(tokenizer.eos_id() == plain.eos_id());
    CHECK(tokenizer.mark(first) == "<|im_start|>");
    std::vector<std::int32_t> expected = {first};
    plain.encode("let there", expected);
    expected.push_back(first + 1);
    CHECK(ids_of(tokenizer, "<|im_start|>let there<|x|>") == expected);
    CHECK(tokenizer.decode(expected) == "let there<|x|>");
}

TEST_CASE("a file of tiktoken with the tokens of a tokenizer.json gives its ids") {
    const std::string json = read_file(fixture / "llama3.json", max_tokenizer_bytes);
    const TokenizerDescription description = parse_tokenizer_json(json, "llama3");
    // The added tokens come last.
    const std::size_t ranked = description.tokens.size() - description.added.size();
    std::string ranks;
    for (std::size_t id = 0; id < ranked; ++id)
        ranks += text(base64(description.tokens[id].bytes), " ", id, "\n");
    CHECK(is_tiktoken(ranks));
    TiktokenFamily family = {Splitter::llama3, false, {}};
    for (const AddedToken& added : description.added)
        family.specials.push_back(added.content);
    const Tokenizer tokenizer(convert_tiktoken(ranks, "ranks", family), "ranks");
    for (const Json& line : expected_lines()) {
        const auto& encoded = line.at("text").get_ref<const std::string&>();
        CAPTURE(encoded);
        CHECK(ids_of(tokenizer, encoded) == line.at("llama3").get<std::vector<std::int32_t>>());
    }
}

TEST_CASE("the mask token is found by name") {
    const Tokenizer plain(fixture / "gpt2.json");
    CHECK_FALSE(plain.mask_id());
    const std::string mark = "<|endoftext|>";
    for (const std::string mask : {"[MASK]", "<mask>", "<|mask|>"}) {
        std::string json = read_file(fixture / "gpt2.json", max_tokenizer_bytes);
        for (auto at = json.find(mark); at != std::string::npos; at = json.find(mark))
            json.replace(at, mark.size(), mask);
        CHECK(Tokenizer(json, "other").mask_id() == plain.eos_id());
    }
}

TEST_CASE("a written tokenizer.json is the one that was read") {
    const std::string name = GENERATE("gpt2", "llama3", "qwen2");
    const std::string json = read_file(fixture / (name + ".json"), max_tokenizer_bytes);
    const TokenizerDescription read = parse_tokenizer_json(json, name);
    const std::string written = to_tokenizer_json(read);
    const Tokenizer first(json, name);
    const Tokenizer second(written, name);
    CHECK(first.vocab_size() == second.vocab_size());
    for (const Json& line : expected_lines()) {
        const auto& text = line.at("text").get_ref<const std::string&>();
        CHECK(ids_of(first, text) == ids_of(second, text));
    }
    CHECK(to_tokenizer_json(parse_tokenizer_json(written, name)) == written);
}

TEST_CASE("every hostile tokenizer.json is refused by file and fault") {
    CHECK(Tokenizer(hostile / "good.json").vocab_size() == 259);
    std::ifstream expected(hostile / "expected.txt");
    int files = 0;
    for (std::string line; std::getline(expected, line); ++files) {
        const std::size_t tab = line.find('\t');
        const fs::path path = hostile / (line.substr(0, tab) + ".json");
        CAPTURE(path, line);
        try {
            const Tokenizer tokenizer(path);
            FAIL("it loads");
        } catch (const Error& error) {
            const std::string message = error.what();
            CHECK(error.code() == ExitCode::bad_input);
            CHECK(message.starts_with(path.string() + ":"));
            CAPTURE(message);
            CHECK(message.find(line.substr(tab + 1)) != std::string::npos);
            CHECK(message.find('\n') == std::string::npos);
            CHECK(message.size() < 1000);
        }
    }
    CHECK(files > 40);
}
