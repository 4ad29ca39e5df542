// The pipelines of many models' tokenizers against the ids and texts of the library `tokenizers`
// (make_kinds_fixture.py).
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "catch.h"
#include "support/temp_folder.h"
#include "tokenizer/support.h"
#include "tokenizer/tokenizer.h"

using namespace gptrain;
namespace fs = std::filesystem;

namespace {

const fs::path kinds_folder = fs::path(GPTRAIN_TEST_DATA) / "kinds";

Json json_of(const char* name) {
    return parse_json(read_file(kinds_folder / name, max_tokenizer_bytes), name);
}

/// A tokenizer.json of each kind.
const std::map<std::string, std::string>& kinds() {
    static const std::map<std::string, std::string> all = [] {
        const Json models = json_of("models.json");
        const Json described = json_of("kinds.json");
        std::map<std::string, std::string> made;
        for (const auto& [name, kind] : described.items()) {
            Json file = kind;
            file["model"] = models.at(kind.at("model").get<std::string>());
            if (kind.contains("changes")) file["model"].update(kind.at("changes"));
            made[name] = to_line(file);
        }
        return made;
    }();
    return all;
}

}  // namespace

TEST_CASE("ids and texts of every kind are those of the library tokenizers") {
    const std::vector<Json> lines = lines_of(kinds_folder / "expected.jsonl");
    REQUIRE(lines.size() > 100);
    for (const auto& [name, file] : kinds()) {
        const Tokenizer tokenizer(file, name);
        for (const Json& line : lines) {
            const auto& text = line.at("text").get_ref<const std::string&>();
            const auto expected = line.at("ids").at(name).get<std::vector<std::int32_t>>();
            CAPTURE(name, text);
            CHECK(ids_of(tokenizer, text) == expected);
            CHECK(tokenizer.least_tokens(text) <= std::ssize(expected));
            CHECK(tokenizer.decode(expected) == line.at("decoded").value(name, text));
        }
    }
}

TEST_CASE("the tokens of every kind begin where their text does") {
    for (const auto& [name, file] : kinds()) {
        const Tokenizer tokenizer(file, name);
        const std::string text =
            "a single  <mask> caf\u00e9s x y  \xE2\x96\x81 the Z\xCC\x81 \xF0\x9F\x98\x80.";
        const std::size_t accent = text.find("\xCC\x81");
        std::vector<std::int32_t> ids;
        std::vector<std::size_t> begins;
        tokenizer.encode(text, ids, begins);
        CAPTURE(name, ids, begins);
        REQUIRE(begins.size() == ids.size());
        CHECK(std::is_sorted(begins.begin(), begins.end()));
        CHECK(begins.front() == 0);
        CHECK(begins.back() == text.size() - 1);
        // Its letter and the accent are one character for NFC.
        if (file.find("\"NFC\"") != file.npos)
            CHECK(std::ranges::find(begins, accent) == begins.end());
        for (std::size_t i = 0; i < ids.size(); ++i) {
            std::string_view bytes = tokenizer.bytes(ids[i]);
            std::string_view rest = std::string_view(text).substr(begins[i]);
            if (!bytes.ends_with("the")) continue;
            bytes.remove_prefix(bytes.starts_with(' ') ? 1 : 0);
            rest.remove_prefix(rest.starts_with(' ') ? 1 : 0);
            CHECK(rest.starts_with(bytes));
        }
    }
}

TEST_CASE("a text of a megabyte takes no quadratic time, whatever its kind") {
    for (const char* name :
         {"crossing", "deepseek2", "deepseek3", "cohere2", "last_blanks", "bloom"}) {
        const Tokenizer tokenizer(kinds().at(name), name);
        for (const std::string part : {" ", "1", "the earth", "\n ", "\x01", "\xCC\x81"}) {
            std::string text;
            while (text.size() < (1 << 17))
                text += part;
            text += "a";
            CAPTURE(name, part);
            CHECK(tokenizer.decode(ids_of(tokenizer, text)) == text);
        }
    }
}

TEST_CASE("ids that stand for nothing are few and of the model's vocabulary") {
    Json file = parse_json(kinds().at("o200k"), "o200k");
    const auto size = static_cast<std::int64_t>(Tokenizer(to_line(file), "o200k").vocab_size());
    file["added_tokens"] = Json::array();
    Json& vocabulary = file["model"]["vocab"];
    const auto tokens = static_cast<std::int64_t>(vocabulary.size());
    vocabulary["<|endoftext|>"] = tokens + 3;
    file["added_tokens"].push_back(
        {{"id", tokens + 3}, {"content", "<|endoftext|>"}, {"special", true}});
    const Tokenizer tokenizer(to_line(file), "gaps");
    CHECK(size > tokens);
    CHECK(tokenizer.vocab_size() == tokens + 4);
    CHECK(tokenizer.eos_id() == tokens + 3);
    CHECK(tokenizer.decode(std::vector{static_cast<std::int32_t>(tokens)}).empty());
    vocabulary["<|endoftext|>"] = 2 * tokens;
    file["added_tokens"][0]["id"] = 2 * tokens;
    CHECK_THROWS_AS(Tokenizer(to_line(file), "gaps"), Error);
}

TEST_CASE("WordPiece has the mask token of masked language modelling") {
    const Tokenizer tokenizer(kinds().at("bert"), "bert");
    REQUIRE(tokenizer.mask_id());
    CHECK(tokenizer.mark(*tokenizer.mask_id()) == "<mask>");
    CHECK(tokenizer.least_tokens("the earth") == 0);
    Json file = parse_json(kinds().at("bert"), "bert");
    file["model"]["unk_token"] = "[NONE]";
    CHECK_THROWS_AS(Tokenizer(to_line(file), "unknown"), Error);
    file["model"]["unk_token"] = "[UNK]";
    file["decoder"]["prefix"] = "@@";
    CHECK_THROWS_AS(Tokenizer(to_line(file), "prefix"), Error);
}

TEST_CASE("tokens added to a sentencepiece model are found in all texts") {
    const fs::path marked = fs::path(GPTRAIN_TEST_DATA).parent_path() / "chat" / "marked";
    const test::TempFolder temp;
    fs::copy_file(marked / "tokenizer.model", temp.path() / "tokenizer.model");
    const auto write = [&](const char* name, const std::string& text) {
        std::ofstream(temp.path() / name) << text;
    };
    const Tokenizer plain(temp.path());
    const auto size = static_cast<std::int32_t>(plain.vocab_size());
    write("added_tokens.json", text(R"({"<|end|>": )", size, "}"));
    write("tokenizer_config.json", R"({"eos_token": "</s>"})");
    const Tokenizer tokenizer(temp.path());
    CHECK(tokenizer.vocab_size() == size + 1);
    CHECK(tokenizer.eos_id() == plain.eos_id());
    std::vector<std::int32_t> expected = ids_of(plain, "the light");
    expected.push_back(size);
    CHECK(ids_of(tokenizer, "the light<|end|>") == expected);
    CHECK(tokenizer.decode(expected) == "the light<|end|>");
    // A space comes only before the text, with `legacy` before each part.
    const auto second = [&](const Tokenizer& one) { return ids_of(one, "the<|end|>light").back(); };
    const std::int32_t bare = second(tokenizer);
    write("tokenizer_config.json", R"({"legacy": true})");
    const std::int32_t spaced = second(Tokenizer(temp.path()));
    CHECK(plain.bytes(spaced) == " light");
    CHECK(bare != spaced);
    write("added_tokens.json", text(R"({"<|end|>": )", size + 1, "}"));
    CHECK_THROWS_AS(Tokenizer(temp.path()), Error);
}
