// Damaged and hostile files: each gives one Error that names the file, and what is wrong where.
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "catch.h"
#include "codec/crc32.h"
#include "parquet/parquet_rows.h"
#include "support/parquet_writer.h"
#include "support/temp_folder.h"
#include "text/documents.h"

using namespace gptrain;
using test::TestPage;
using test::TestParquet;
using std::string_literals::operator""s;

namespace {

using Texts = std::vector<std::string>;

Texts read_all(const std::filesystem::path& file) {
    const auto source = open_corpus(file, {.json_lines = true});
    Texts texts;
    for (Record record; source->next(record);)
        texts.push_back(record.kind == Record::Kind::row_text ? record.bytes : "<null>");
    return texts;
}

/// The texts of the file, joined, or what is wrong with it, behind its name.
std::string outcome_of_bytes(const std::string& bytes) {
    const test::TempFolder folder;
    const auto file = folder / "a.parquet";
    test::fill(file, bytes);
    std::string joined;
    const std::string fault = test::message_of(ExitCode::bad_input, [&] {
        for (const std::string& text : read_all(file))
            joined += text + ";";
    });
    if (fault.empty()) return joined;
    REQUIRE(fault.starts_with(file.string() + ": "));
    return fault.substr(file.string().size() + 2);
}

std::string outcome(const TestParquet& file) {
    return outcome_of_bytes(test::parquet_bytes(file));
}

/// Two rows, "a" and "bc", in a page each.
TestParquet two_rows() {
    TestParquet file;
    file.rows = 2;
    for (const std::string text : {"a", "bc"})
        file.pages.push_back({.packed = test::plain_texts({text}), .values = 1});
    return file;
}

const std::string place = "row group 0, column text";

}  // namespace

TEST_CASE("the writer of the tests writes files that are read") {
    CHECK(outcome(two_rows()) == "a;bc;");
    TestParquet nulls = two_rows();
    nulls.repetition = 1;
    nulls.pages[0].packed = "\x02\0\0\0\x02\x01"s + nulls.pages[0].packed;
    nulls.pages[1].packed = "\x02\0\0\0\x02\0"s;
    CHECK(outcome(nulls) == "a;<null>;");
}

TEST_CASE("LZ4 of the number that has two meanings") {
    TestParquet file = two_rows();
    file.codec = 5;
    file.pages = {
        {.packed = "\x50\x01\0\0\0a"s, .values = 1, .unpacked_bytes = 5},
        {.packed = "\0\0\0\x06\0\0\0\x07\x60\x02\0\0\0bc"s, .values = 1, .unpacked_bytes = 6}};
    CHECK(outcome(file) == "a;bc;");
}

TEST_CASE("what is not read is refused by name") {
    TestParquet file = two_rows();
    file.codec = 4;
    CHECK(outcome(file) == place +
                               ": is compressed with Brotli, which is not read; write the file "
                               "with zstd or Snappy");
    file.codec = 3;
    CHECK(outcome(file).starts_with(place + ": is compressed with LZO"));
    file.codec = 9;
    CHECK(outcome(file).starts_with(place + ": is compressed with a codec of number 9"));
    file = two_rows();
    file.other_file = "b.parquet";
    CHECK(outcome(file) == place + ": its data is in another file");
    file = two_rows();
    file.pages[1].encoding = 9;
    CHECK(outcome(file) ==
          place + ", page 1, row 0: values in encoding 9 of Parquet, which is not read");
    file = two_rows();
    file.type = 7;
    CHECK(outcome(file) == "its column 'text' does not hold texts: choose one with --json-key");
    std::string encrypted = test::parquet_bytes(two_rows());
    encrypted.back() = 'E';
    CHECK(outcome_of_bytes(encrypted) == "an encrypted Parquet file, which is not read");
}

TEST_CASE("a file that is cut off, or none of Parquet") {
    const std::string whole = test::parquet_bytes(two_rows());
    CHECK(outcome_of_bytes("") == "named .parquet, but not a Parquet file; copy it again");
    CHECK(outcome_of_bytes("{\"text\": \"a\"}\n") ==
          "named .parquet, but not a Parquet file; copy it again");
    for (std::size_t size = 12; size < whole.size(); ++size)
        CHECK(outcome_of_bytes(whole.substr(0, size)) ==
              "a Parquet file that is cut off; copy it again");
    std::string longer = whole;
    longer[longer.size() - 6] = '\x7F';
    CHECK(outcome_of_bytes(longer) == "damaged metadata: longer than the file");
    // Every byte of the metadata, changed: another meaning, or one Error.
    for (std::size_t i = whole.find("schema") - 10; i < whole.size(); ++i) {
        for (const char value : {'\0', '\x15', '\x7F', '\xFF'}) {
            std::string changed = whole;
            changed[i] = value;
            outcome_of_bytes(changed);
        }
    }
}

TEST_CASE("metadata that does not fit the file") {
    const auto metadata = [](auto change) {
        TestParquet file = two_rows();
        change(file);
        return outcome(file);
    };
    const std::string outside = "damaged metadata: column text lies outside the file";
    CHECK(metadata([](TestParquet& file) { file.begin = 1 << 20; }) == outside);
    CHECK(metadata([](TestParquet& file) { file.chunk_bytes = 1 << 20; }) == outside);
    CHECK(metadata([](TestParquet& file) { file.begin = -4; }) == outside);
    CHECK(metadata([](TestParquet& file) { file.begin = INT64_MAX; }) == outside);
    CHECK(metadata([](TestParquet& file) { file.values = -1000; }) != "");
    CHECK(metadata([](TestParquet& file) { file.path = "body"; }) ==
          "damaged metadata: column text is another one than in the schema");
    CHECK(metadata([](TestParquet& file) { file.group_rows = 3; }) ==
          "damaged metadata: the rows of its row groups are not those of the file");
    CHECK(metadata([](TestParquet& file) { file.group_rows = 1; }) ==
          "damaged metadata: the rows of its row groups are not those of the file");
    CHECK(metadata([](TestParquet& file) {
              file.rows = 1;
              file.values = 2;
          }) == place + ", page 1, row 1: it has more rows than its row group");
    CHECK(metadata([](TestParquet& file) {
              file.rows = 3;
              file.values = 2;
          }) == place + ", page 1, row 1: it has fewer rows than its row group");
    CHECK(metadata([](TestParquet& file) { file.rows = file.values = 3; }) ==
          place + ", page 1, row 1: its pages lack 1 values of its metadata");
    CHECK(metadata([](TestParquet& file) {
              file.rows = file.values = 1;
              file.pages[0].values = 2;
          }) == place + ", page 0: its pages have more values than its metadata");
}

TEST_CASE("damaged pages") {
    const auto page = [](auto change) {
        TestParquet file = two_rows();
        change(file.pages[1]);
        return outcome(file);
    };
    const std::string second = place + ", page 1, row 0: ";
    CHECK(page([](TestPage& p) { p.unpacked_bytes = 7; }) ==
          second + "it has 6 bytes instead of 7");
    CHECK(page([](TestPage& p) { p.unpacked_bytes = (std::int64_t{1} << 30) + 1; }) ==
          place +
              ", page 0, row 0: a page of 1073741825 bytes; the most is 1073741824: write the "
              "file with smaller pages");
    CHECK(page([](TestPage& p) { p.packed_bytes = 100; }) ==
          place + ", page 0, row 0: damaged page header: the page is longer than its column");
    CHECK(page([](TestPage& p) { p.packed_bytes = p.values = -1; }) ==
          place + ", page 0, row 0: damaged page header: a negative size");
    CHECK(page([](TestPage& p) { p.packed = "\xFF\xFF\xFF\xFF"s + "bc"; }) ==
          place + ", page 1, row 1: its values end early");
    CHECK(page([](TestPage& p) { p.crc = 1; }) ==
          second + "the checksum of the page is wrong; copy the file again");
    CHECK(page([](TestPage& p) { p.is_dictionary = true; }) ==
          place + ", page 1, row 0: its pages lack 1 values of its metadata");
    CHECK(page([](TestPage& p) { p.encoding = 8; }) ==
          second + "its values refer to a dictionary, but there is none");
    CHECK(page([](TestPage& p) { p.encoding = 6; }).starts_with(second + "damaged delta encoding"));
}

TEST_CASE("a page with its checksum, a page to be passed over") {
    TestParquet file = two_rows();
    const std::string& packed = file.pages[1].packed;
    file.pages[1].crc = static_cast<std::int32_t>(crc32_of(std::as_bytes(std::span(packed))));
    file.pages.insert(file.pages.begin() + 1, {.packed = "any", .is_index = true});
    CHECK(outcome(file) == "a;bc;");
}

TEST_CASE("dictionaries") {
    TestParquet file = two_rows();
    const TestPage dictionary = {
        .packed = test::plain_texts({"x", "y"}), .values = 2, .is_dictionary = true};
    // Indexes of one bit: 1, 0, packed.
    file.pages = {dictionary, {.packed = "\x01\x03\x01", .values = 2, .encoding = 8}};
    CHECK(outcome(file) == "y;x;");
    // A width of 0: always the first.
    file.pages[1].packed = "\0"s;
    CHECK(outcome(file) == "x;x;");
    file.pages[1].packed = "\x02\x04\x02";
    CHECK(outcome(file) ==
          place + ", page 1, row 0: a value refers to entry 2 of a dictionary of 2");
    file.pages[1].packed = "\x21\x04\x02";
    CHECK(outcome(file) == place + ", page 1: numbers of 33 bits");
    file.pages[0].values = 3;
    CHECK(outcome(file) == place + ", page 0: its dictionary of 3 values ends early");
    file.pages[0] = dictionary;
    file.pages[0].packed += "x";
    file.pages[0].values = 1 << 28;
    CHECK(outcome(file) == place + ", page 0: its dictionary of 268435456 values ends early");
    file.pages[0] = dictionary;
    file.pages.insert(file.pages.begin(), dictionary);
    CHECK(outcome(file) == place + ", page 1: it has a second dictionary");
}

TEST_CASE("texts with a prefix of the text before") {
    // Prefix lengths, suffix lengths, suffixes: "ab", then 1 byte of it and "cd".
    const auto lengths = [](int first, int second) {
        test::ThriftWriter writer;
        writer.varint(128).varint(4).varint(2).zigzag(first).zigzag(second - first);
        return writer.bytes() + std::string(4, '\0');
    };
    TestParquet file = two_rows();
    file.pages = {{.packed = lengths(0, 1) + lengths(2, 2) + "abcd", .values = 2, .encoding = 7}};
    CHECK(outcome(file) == "ab;acd;");
    file.pages[0].packed = lengths(0, 3) + lengths(2, 2) + "abcd";
    CHECK(outcome(file) == place + ", page 0, row 1: a text shares 3 bytes with one of 2");
    file.pages[0].packed = lengths(0, 1) + lengths(2, -2) + "abcd";
    CHECK(outcome(file) == place + ", page 0, row 1: a text has a negative length");
    file.pages[0].packed = lengths(0, 1) + lengths(2, 3) + "abcd";
    CHECK(outcome(file) == place + ", page 0, row 1: its values end early");
    file.pages[0].values = file.rows = 1;
    CHECK(outcome(file) ==
          place + ", page 0, row 0: its encoding has 2 values, 1 more than the page");
}

TEST_CASE("levels") {
    TestParquet file = two_rows();
    file.repetition = 1;
    const auto levels = [&](const std::string& bytes) {
        file.pages = {{.packed = bytes + test::plain_texts({"a", "b"}), .values = 2}};
        return outcome(file);
    };
    CHECK(levels("\x02\0\0\0\x04\x01"s) == "a;b;");
    CHECK(levels("\x02\0\0\0\x04\x02"s) ==
          place + ", page 0: a level or index has more than 1 bits");
    CHECK(levels("\x02\0\0\0\x02\x01"s) ==
          place + ", page 0, row 0: its levels or indexes end early");
    CHECK(levels("\xFF\0\0\0\x04\x01"s) == place + ", page 0: its levels are longer than the page");
}

TEST_CASE("columns whose lists do not fit each other") {
    const std::filesystem::path folder = GPTRAIN_TEST_DATA "/../corpus/parquet";
    for (const std::string name : {"lists-differ", "list-before-row", "nulls-differ"}) {
        const auto file = folder / (name + ".parquet");
        const std::string fault = test::message_of(ExitCode::bad_input, [&] {
            const auto source = open_corpus(file, {.json_lines = true, .whole_rows = true});
            for (Record record; source->next(record);)
                continue;
        });
        CHECK(fault.starts_with(file.string() + ": row group 0, column m.list.element.r, page 0"));
        CHECK(fault.ends_with("its levels do not fit those of the columns next to it"));
    }
}
