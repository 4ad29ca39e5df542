// Files of pyarrow, DuckDB and Polars (make_files.py): every codec, encoding and version of pages.
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "catch.h"
#include "parquet/parquet_rows.h"
#include "support/temp_folder.h"
#include "text/documents.h"

using namespace gptrain;
namespace fs = std::filesystem;

namespace {

const fs::path here = GPTRAIN_TEST_DATA;

std::vector<Json> expected_rows() {
    RecordReader reader(here / "rows.jsonl", RecordUnit::line, 1 << 20);
    std::vector<Json> rows;
    for (Record record; reader.next(record);)
        rows.push_back(parse_json(record.bytes, "rows.jsonl"));
    return rows;
}

std::vector<fs::path> files() {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(here / "files"))
        files.push_back(entry.path());
    return files;
}

std::vector<Record> records(const fs::path& file, CorpusFormat format) {
    format.json_lines = true;
    const auto source = open_corpus(file, format);
    std::vector<Record> all;
    for (Record record; source->next(record);)
        all.push_back(std::move(record));
    return all;
}

}  // namespace

TEST_CASE("whole rows") {
    const std::vector<Json> expected = expected_rows();
    REQUIRE(files().size() == 19);
    for (const fs::path& file : files()) {
        INFO(file.string());
        const std::vector<Record> rows = records(file, {.whole_rows = true});
        REQUIRE(rows.size() == expected.size());
        const bool has_maps = file.filename().string().find("duckdb") == std::string::npos &&
                              file.filename() != "polars.parquet";
        for (std::size_t i = 0; i < rows.size(); ++i) {
            Json row = expected[i];
            if (!has_maps) row.erase("map");
            CHECK(parse_json(rows[i].bytes, "row") == row);
            CHECK(rows[i].line == static_cast<std::int64_t>(i));
        }
    }
}

TEST_CASE("the texts of a column") {
    const std::vector<Json> expected = expected_rows();
    for (const fs::path& file : files()) {
        INFO(file.string());
        for (const std::string key : {"text", "word"}) {
            std::vector<Record> rows = records(file, {.json_key = key});
            REQUIRE(rows.size() == expected.size());
            for (std::size_t i = 0; i < rows.size(); ++i) {
                std::string text;
                const CorpusFormat format = {.json_lines = true, .json_key = key};
                const auto fault = take_document(rows[i], format, text);
                if (expected[i].at(key).is_null()) {
                    REQUIRE(fault);
                    CHECK(fault->fault == DocumentFault::not_text);
                    CHECK(place_of(rows[i], "f.parquet") == gptrain::text("f.parquet: row ", i));
                } else {
                    CHECK_FALSE(fault);
                    CHECK(text == expected[i].at(key));
                }
            }
        }
    }
}

TEST_CASE("row groups are read by themselves") {
    const fs::path file = here / "files/snappy-1.parquet";
    const std::vector<Record> all = records(file, {.whole_rows = true});
    CHECK(ParquetFile(file).metadata().groups.size() == 3);
    std::vector<Record> parts;
    for (std::size_t group = 0; group < 4; ++group) {
        for (Record& record : records(file, {.whole_rows = true, .groups = {group, group + 1}}))
            parts.push_back(std::move(record));
    }
    REQUIRE(parts.size() == all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(parts[i].bytes == all[i].bytes);
        CHECK(parts[i].line == all[i].line);
    }
}

TEST_CASE("threads that read ahead keep the order, and an Error its place") {
    const fs::path file = here / "files/snappy-1.parquet";
    const std::vector<Record> all = records(file, {.whole_rows = true});
    for (const std::size_t readers : {2u, 9u}) {
        const auto ahead = records(file, {.whole_rows = true, .readers = readers});
        REQUIRE(ahead.size() == all.size());
        for (std::size_t i = 0; i < all.size(); ++i) {
            CHECK(ahead[i].bytes == all[i].bytes);
            CHECK(ahead[i].line == all[i].line);
        }
    }
    // Damage in the last row group.
    const test::TempFolder folder;
    const fs::path damaged = folder / "damaged.parquet";
    std::string bytes = test::contents(file);
    const ParquetFile whole(file);
    const auto begin = static_cast<std::size_t>(whole.metadata().groups[2].columns[0].begin);
    bytes[begin] = '\x7F';
    test::fill(damaged, bytes);
    const auto source =
        open_corpus(damaged, {.json_lines = true, .whole_rows = true, .readers = 3});
    Record record;
    for (int row = 0; row < 10; ++row)
        REQUIRE(source->next(record));
    CHECK(test::message_of(ExitCode::bad_input, [&] {
              source->next(record);
          }).starts_with(damaged.string() + ": row group 2, column text: "));
    // Nobody waits for rows that nobody takes.
    const auto unread = open_corpus(file, {.json_lines = true, .whole_rows = true, .readers = 3});
    CHECK(unread->next(record));
}

TEST_CASE("a text or row above the limit is too long") {
    const fs::path file = here / "files/zstd-2.parquet";
    for (const bool whole : {false, true}) {
        const auto rows = records(file, {.max_document_bytes = 400, .whole_rows = whole});
        CHECK(rows.size() == 12);
        CHECK(rows[9].too_long == whole);
        CHECK(rows[9].bytes.empty() == whole);
        CHECK_FALSE(rows[8].too_long);
    }
    CHECK(records(file, {.max_document_bytes = 299})[9].too_long);
}

TEST_CASE("a column that is not there, or holds no texts, is refused by name") {
    const fs::path file = here / "files/zstd-2.parquet";
    const auto refusal = [&](const std::string& key) {
        return test::message_of(ExitCode::bad_input, [&] { records(file, {.json_key = key}); });
    };
    const std::string choices =
        "; its columns with text are 'text', 'word': choose one with --json-key";
    CHECK(refusal("body") == file.string() + ": has no column 'body'" + choices);
    CHECK(refusal("small") == file.string() + ": its column 'small' does not hold texts" + choices);
    CHECK(refusal("messages") ==
          file.string() + ": its column 'messages' does not hold texts" + choices);
}

TEST_CASE("Parquet is known by its name, in any case") {
    CHECK(named_parquet("a/b.parquet"));
    CHECK(named_parquet("B.PARQUET"));
    CHECK_FALSE(named_parquet("parquet"));
    CHECK_FALSE(named_parquet("a.parquet.gz"));
}
