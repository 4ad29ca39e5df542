// UTF-8, JSON lines and records of corpus files.
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "catch.h"
#include "support/temp_folder.h"
#include "text/documents.h"
#include "text/json_line.h"
#include "text/record_reader.h"

using namespace gptrain;
namespace fs = std::filesystem;

namespace {

std::vector<Record> records(const std::string& contents, RecordUnit unit,
                            std::int64_t limit = 1 << 20) {
    const test::TempFolder folder;
    const fs::path path = folder / "records.txt";
    test::fill(path, contents);
    RecordReader reader(path, unit, limit);
    std::vector<Record> all;
    for (Record record; reader.next(record);)
        all.push_back(record);
    CHECK(reader.position() == static_cast<std::int64_t>(contents.size()));
    return all;
}

std::vector<std::string> texts(const std::string& contents, RecordUnit unit) {
    std::vector<std::string> all;
    for (const Record& record : records(contents, unit))
        all.push_back(record.bytes);
    return all;
}

using Texts = std::vector<std::string>;

/// The text under "text", or what is wrong with the line.
std::string json_text(const std::string& line) {
    std::string out;
    try {
        switch (find_json_text(line, "text", out)) {
            case JsonText::found: return out;
            case JsonText::missing: return "missing";
            case JsonText::not_a_string: return "not a string";
        }
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::bad_input);
        return error.what();
    }
    return "";
}

bool refused(const std::string& line) {
    return json_text(line).starts_with("column ");
}

}  // namespace

TEST_CASE("UTF-8 is checked to the letter of RFC 3629") {
    for (const std::string valid :
         {"", "plain", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
          "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
        CHECK(find_invalid_utf8(valid) == std::string::npos);
    for (const std::string invalid :
         {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
          "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF", "\xC2",
          "\xE2\x82", "\xF0\x9F\x98", "\xE2\x28\xA1"}) {
        CHECK(find_invalid_utf8(invalid) == 0);
        CHECK(find_invalid_utf8("twelve bytes" + invalid + "and more text") == 12);
    }
}

TEST_CASE("invalid UTF-8 is found at its first byte, wherever it is") {
    // Bytes at which the rules differ, in all sequences of three and then a tail.
    const std::string_view bytes(
        "\0A\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF"
        "\xF0\xF1\xF3\xF4\xF5\xFF",
        25);
    std::int64_t wrong = 0;
    for (const char a : bytes) {
        for (const char b : bytes) {
            for (const char c : bytes) {
                for (const std::size_t before : {0, 5, 6, 7}) {
                    const std::string text = std::string(before, 'x') + a + b + c + "\x80yz";
                    std::size_t at = 0;
                    Utf8Step step = utf8_step(text);
                    while (step.kind == Utf8::valid && (at += step.bytes) < text.size())
                        step = utf8_step(std::string_view(text).substr(at));
                    const std::size_t expected = step.kind == Utf8::valid ? std::string::npos : at;
                    if (find_invalid_utf8(text) != expected) ++wrong;
                }
            }
        }
    }
    CHECK(wrong == 0);
}

TEST_CASE("lines, paragraphs and whole files") {
    CHECK(texts("a\n\n  \nb c\n", RecordUnit::line) == Texts{"a", "b c"});
    CHECK(texts("a\nb", RecordUnit::line) == Texts{"a", "b"});
    CHECK(texts("\n\na\nb\n\n \t\n\nc\n", RecordUnit::paragraph) == Texts{"a\nb", "c"});
    CHECK(texts("  indented\nb  \n", RecordUnit::paragraph) == Texts{"  indented\nb  "});
    CHECK(texts("\na\n\nb\n", RecordUnit::file) == Texts{"\na\n\nb\n"});
    CHECK(texts("a\nb", RecordUnit::file) == Texts{"a\nb"});
    CHECK(texts("", RecordUnit::file).empty());
    CHECK(texts("\n \n", RecordUnit::paragraph).empty());
    CHECK(texts("a\r\nb\r\n\r\nc\r\n", RecordUnit::paragraph) == Texts{"a\nb", "c"});
    CHECK(texts("\xEF\xBB\xBF"
                "a\n",
                RecordUnit::line) == Texts{"a"});
}

TEST_CASE("records know their place") {
    const auto lines = records("one\n\ntwo\r\nthree", RecordUnit::line);
    REQUIRE(lines.size() == 3);
    CHECK(lines[1].line == 3);
    CHECK(lines[1].offset == 5);
    CHECK_FALSE(lines[1].unfinished);
    CHECK(lines[2].line == 4);
    CHECK(lines[2].offset == 10);
    CHECK(lines[2].unfinished);
    const auto paragraphs = records("\n\none\ntwo\n\nthree\n", RecordUnit::paragraph);
    REQUIRE(paragraphs.size() == 2);
    CHECK(paragraphs[0].line == 3);
    CHECK(paragraphs[0].offset == 2);
    CHECK(paragraphs[1].line == 6);
}

TEST_CASE("a record above the limit is passed over, the next one is read") {
    const std::string huge(3 << 20, 'x');
    const auto lines = records("a\n" + huge + "\nb\n", RecordUnit::line, 100);
    REQUIRE(lines.size() == 3);
    CHECK(lines[1].too_long);
    CHECK(lines[1].bytes.empty());
    CHECK(lines[2].bytes == "b");
    const auto paragraphs = records("aaaa\nbbbb\ncccc\n\nd\n", RecordUnit::paragraph, 10);
    REQUIRE(paragraphs.size() == 2);
    CHECK(paragraphs[0].too_long);
    CHECK(paragraphs[1].bytes == "d");
    CHECK_FALSE(paragraphs[1].too_long);
    CHECK_FALSE(records("12345", RecordUnit::line, 5).front().too_long);
    CHECK(records("123456", RecordUnit::line, 5).front().too_long);
}

TEST_CASE("lines across block borders stay whole") {
    std::string contents;
    Texts expected;
    for (int i = 0; i < 5000; ++i) {
        expected.push_back(std::string(static_cast<std::size_t>(i % 700), 'a') + std::to_string(i));
        contents += expected.back() + "\n";
    }
    CHECK(texts(contents, RecordUnit::line) == expected);
}

TEST_CASE("what is no text file is refused by its first bytes") {
    for (const std::string start : {"\x1F\x8B\x08", "\x28\xB5\x2F\xFD",
                                    "\xFD"
                                    "7zXZ",
                                    "BZh91AY&SY", "PK\x03\x04",
                                    "\xFF\xFE"
                                    "a",
                                    "\xFE\xFF"
                                    "a"})
        CHECK_THROWS_AS(records(start + "rest", RecordUnit::line), Error);
}

TEST_CASE("JSON lines are known by name, packed or not") {
    for (const std::string name :
         {"a.json", "a.jsonl", "a.json.gz", "b/a.jsonl.gz", "a.jsonl.zst", ".x.jsonl"})
        CHECK(named_json_lines(name));
    for (const std::string name : {"a.txt", "a.gz", "a.jsonl.txt", "jsonl", "a.jsonl.xz", ""})
        CHECK_FALSE(named_json_lines(name));
}

TEST_CASE("what looks like no prose is warned of") {
    const std::string object = "{\"text\": \"a\"}\n";
    CHECK(prose_warning("a.csv", "") != "");
    CHECK(prose_warning("a.tsv.gz", "plain") != "");
    CHECK(prose_warning("a.txt", object) != "");
    CHECK(prose_warning("a.txt", "\n \r\n" + object + "{}\n") != "");
    CHECK(prose_warning("a.txt", object + object + object + "prose\n") != "");
    CHECK(prose_warning("a.txt", "{\"a\": 1}") != "");
    CHECK(prose_warning("a.txt", object + "{\"a\": ") != "");
    CHECK(prose_warning("a.txt", "") == "");
    CHECK(prose_warning("a.txt", "{\"a\": ") == "");
    CHECK(prose_warning("a.txt", "prose\n" + object) == "");
    CHECK(prose_warning("a.txt", object + "prose\n") == "");
    CHECK(prose_warning("a.txt", "{begins with a brace}\n") == "");
    CHECK(prose_warning("a.txt", "[1]\n\"a\"\n") == "");
    CHECK(prose_warning("csv", "a,b\n") == "");
}

TEST_CASE("the text is found in a JSON line") {
    CHECK(json_text(R"({"text": "a"})") == "a");
    CHECK(json_text(R"( { "id" : 1 , "text" : "a\nb" } )"
                    "\r") == "a\nb");
    CHECK(json_text(R"({"meta":{"text":"inner","n":[1,-2.5e+3,{"x":null}]},"text":"outer"})") ==
          "outer");
    CHECK(json_text(R"({"text":"\u00e9\u4F60\ud83d\ude00\"\\\/\b\f\r\t"})") ==
          "\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\x80\"\\/\b\f\r\t");
    CHECK(json_text(R"({"te\u0078t":"escaped key"})") == "escaped key");
    CHECK(json_text(R"({"text":"\u0000"})") == std::string(1, '\0'));
    CHECK(json_text(R"({"text":""})") == "");
    CHECK(json_text(R"({"Text":"a"})") == "missing");
    CHECK(json_text("{}") == "missing");
    CHECK(json_text(R"({"text":null})") == "not a string");
    CHECK(json_text(R"({"text":["a"]})") == "not a string");
}

TEST_CASE("the keys with text in a JSON line") {
    CHECK(json_text_keys(R"({"id":1,"body":"a","meta":{"title":"b"},"t\u0069tle":"c","n":null})") ==
          Texts{"body", "title"});
    CHECK(json_text_keys("{}").empty());
}

TEST_CASE("a missing key is told with those that could be meant") {
    const auto fault = [](const std::string& line) {
        Record record;
        record.bytes = line;
        std::string out;
        return take_document(record, {.json_lines = true}, out).value().what;
    };
    CHECK(fault(R"({"id":1})") == "the key 'text' is missing");
    CHECK(fault(R"({"body":"a","title":"b"})") ==
          "the key 'text' is missing; its keys with text are 'body', 'title': choose one with "
          "--json-key");
    const std::string long_key(41, 'k');
    CHECK(fault("{\"" + long_key + R"(":"a","two\nlines":"b"})") == "the key 'text' is missing");
    std::string many;
    for (char c = 'a'; c <= 'i'; ++c)
        many += text(many.empty() ? "{\"" : ",\"", c, "\":\"\"");
    CHECK(fault(many + "}").find("'h', ...:") != std::string::npos);
}

TEST_CASE("bad JSON is refused with its column") {
    for (const std::string line : {"",
                                   "null",
                                   "[]",
                                   "\"text\"",
                                   "{",
                                   "{\"text\"",
                                   "{\"text\":",
                                   "{\"text\":\"a",
                                   "{\"text\":\"a\"",
                                   "{\"text\":\"a\",}",
                                   "{\"text\":\"a\"}}",
                                   "{\"text\":\"a\"} {}",
                                   "{'text':'a'}",
                                   "{text:\"a\"}",
                                   "{\"text\":\"a\" \"b\":1}",
                                   "{\"text\":\"\\x41\"}",
                                   "{\"text\":\"\\u12\"}",
                                   "{\"text\":\"\\u12G4\"}",
                                   "{\"text\":\"\\u+123\"}",
                                   "{\"text\":\"\\ud800\"}",
                                   "{\"text\":\"\\ud800\\u0041\"}",
                                   "{\"text\":\"\\ud800\\ue000\"}",
                                   "{\"text\":\"\\udc00\"}",
                                   "{\"text\":\"\\",
                                   "{\"text\":\"a\tb\"}",
                                   "{\"n\":01}",
                                   "{\"n\":00}",
                                   "{\"n\":-}",
                                   "{\"n\":1.}",
                                   "{\"n\":.5}",
                                   "{\"n\":1e}",
                                   "{\"n\":+1}",
                                   "{\"n\":nan}",
                                   "{\"n\":tru}",
                                   "{\"n\":[1,]}",
                                   "{\"n\":[1 2]}",
                                   "{\"n\":{\"a\"}}",
                                   "{\"text\":\"a\",\"text\":\"b\"}",
                                   "{\"text\":1,\"text\":\"b\"}"}) {
        CAPTURE(line);
        CHECK(refused(line));
    }
    CHECK(refused("{\"text\":\"a\"" + std::string(1, '\0') + "}"));
    CHECK(refused("{\"n\":" + std::string(100000, '[')));
    CHECK(refused("{\"n\":" + std::string(65, '[') + std::string(65, ']') + "}"));
    CHECK_FALSE(refused("{\"n\":" + std::string(63, '[') + std::string(63, ']') + "}"));
    CHECK(json_text(R"({"text":"a",})").starts_with("column 13"));
}
