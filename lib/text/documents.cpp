#include "text/documents.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/json.h"
#include "base/letters.h"
#include "base/utf8.h"
#include "codec/decompressor.h"
#include "text/json_line.h"
#include "text/parquet_read_ahead.h"
#include "text/parquet_records.h"

namespace gptrain {
namespace {

constexpr std::string_view json_lines_endings[] = {".json", ".jsonl", ".ndjson", ".jsonlines"};

/// True if the key fits on one line of a message.
bool is_plain_key(std::string_view key) {
    const auto is_control = [](unsigned char c) { return c < 32 || c == 127; };
    return key.size() <= 40 && std::none_of(key.begin(), key.end(), is_control);
}

/// Suggests keys of the line in place of a missing one, as the end of a message.
std::string other_keys(std::string_view line) {
    constexpr std::size_t max_keys = 8;
    std::vector<std::string> keys = json_text_keys(line);
    std::erase_if(keys, [](const std::string& key) { return !is_plain_key(key); });
    if (keys.empty()) return "";
    std::string names;
    for (std::size_t i = 0; i < std::min(keys.size(), max_keys); ++i)
        names += text(i > 0 ? ", '" : "'", keys[i], "'");
    return text("; its keys with text are ", names, keys.size() > max_keys ? ", ..." : "",
                ": choose one with --json-key");
}

std::optional<FaultyDocument> take_json_text(const Record& record, const std::string& key,
                                             std::string& text_out) {
    try {
        switch (find_json_text(record.bytes, key, text_out)) {
            case JsonText::found: return std::nullopt;
            case JsonText::missing:
                return FaultyDocument{
                    DocumentFault::missing_key,
                    text("the key '", key, "' is missing", other_keys(record.bytes))};
            case JsonText::not_a_string:
                return FaultyDocument{DocumentFault::not_text,
                                      text("the value of '", key, "' must be a string")};
        }
    } catch (const Error& error) {
        return faulty_json(record, error);
    }
    return std::nullopt;
}

bool is_json_object(std::string_view line) {
    try {
        return parse_json(line, "line").is_object();
    } catch (const Error&) {
        return false;
    }
}

/// True if the first nonblank lines (at most three) are JSON objects. A line without an end, which
/// may be cut off, counts if it is one.
bool begins_with_json_objects(std::string_view start) {
    int objects = 0;
    while (objects < 3 && !start.empty()) {
        const std::size_t end = std::min(start.find('\n'), start.size());
        const bool complete = end < start.size();
        const std::string_view line = start.substr(0, end);
        start.remove_prefix(complete ? end + 1 : end);
        if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
        if (is_json_object(line)) {
            ++objects;
        } else if (complete) {
            return false;
        }
    }
    return objects > 0;
}

}  // namespace

std::filesystem::path uncompressed_name(const std::filesystem::path& path) {
    const std::string extension = in_lower_case(path.extension().string());
    const bool compressed =
        std::any_of(compressed_formats.begin(), compressed_formats.end(),
                    [&](const CompressedFormat& format) { return extension == format.extension; });
    return compressed ? path.stem() : path.filename();
}

bool named_json_lines(const std::filesystem::path& path) {
    const std::string extension = in_lower_case(uncompressed_name(path).extension().string());
    return std::ranges::find(json_lines_endings, extension) != std::end(json_lines_endings);
}

std::string prose_warning(const std::filesystem::path& path, std::string_view start) {
    const auto extension = uncompressed_name(path).extension();
    if (extension == ".csv" || extension == ".tsv") {
        return text(path.string(),
                    ": named like a table, but read as plain text with all columns; convert it "
                    "to JSON lines (.jsonl) to use only the text");
    }
    if (begins_with_json_objects(start)) {
        std::error_code ignored;
        const bool file = std::filesystem::is_regular_file(path, ignored);
        return text(path.string(),
                    ": its first lines are JSON objects, but it is read as plain text; ",
                    file ? "rename it to .jsonl" : "read it with --format jsonl",
                    " to use only the text of each object");
    }
    return "";
}

std::string line_of(const Record& record, const std::filesystem::path& path) {
    return text(path.string(), record.kind == Record::Kind::part ? ":" : ": row ", record.line);
}

std::string place_of(const Record& record, const std::filesystem::path& path) {
    const bool is_part = record.kind == Record::Kind::part;
    return line_of(record, path) + (is_part ? text(": byte ", record.offset) : "");
}

std::unique_ptr<RecordSource> open_corpus(const std::filesystem::path& path,
                                          const CorpusFormat& format) {
    if (named_parquet(path)) {
        auto file = std::make_shared<const ParquetFile>(path);
        const std::string key = format.whole_rows ? "" : format.json_key;
        if (format.readers > 1)
            return std::make_unique<ParquetReadAhead>(
                std::move(file), key, format.max_document_bytes, format.groups, format.readers);
        return std::make_unique<ParquetRecords>(std::move(file), key, format.max_document_bytes,
                                                format.groups);
    }
    return std::make_unique<RecordReader>(
        path, format.json_lines ? RecordUnit::line : format.documents, format.max_document_bytes);
}

FaultyDocument faulty_json(const Record& record, const Error& error) {
    if (record.unfinished) {
        return {DocumentFault::truncated, text("the file ends inside this line: ", error.what())};
    }
    if (record.line == 1 && record.bytes.starts_with('[')) {
        return {DocumentFault::invalid_json,
                "a JSON array; make JSON lines of it (jq -c '.[]' FILE)"};
    }
    return {DocumentFault::invalid_json, text("invalid JSON, ", error.what())};
}

std::optional<FaultyDocument> take_document(Record& record, const CorpusFormat& format,
                                            std::string& text_out) {
    if (record.too_long) {
        return FaultyDocument{DocumentFault::too_long, text("longer than the limit of ",
                                                            format.max_document_bytes, " bytes")};
    }
    const std::size_t invalid = find_invalid_utf8(record.bytes);
    if (invalid != std::string::npos) {
        return FaultyDocument{DocumentFault::invalid_utf8,
                              text("invalid UTF-8 at its byte ", invalid)};
    }
    const bool is_text = record.kind == Record::Kind::row_text;
    if (format.json_lines && !is_text) return take_json_text(record, format.json_key, text_out);
    text_out.swap(record.bytes);
    return std::nullopt;
}

}  // namespace gptrain
