// Turns records of corpus files into documents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/words.h"
#include "parquet/parquet_rows.h"
#include "text/record_reader.h"

namespace gptrain {

/// How a corpus file is split into documents.
struct CorpusFormat {
    /// One JSON object per line, with the text under `json_key`. Rows of Parquet are such lines.
    bool json_lines = false;
    std::string json_key = "text";
    RecordUnit documents = RecordUnit::paragraph;  ///< plain text: the unit of a document
    std::int64_t max_document_bytes = std::int64_t{64} << 20;  ///< limit of a line or document
    bool whole_rows = false;  ///< Parquet: all columns, not only that of the text
    ParquetGroups groups = all_groups;
    std::size_t readers = 1;  ///< Parquet: threads that decode row groups ahead, if several

    /// Cut to those of the file.
    static constexpr ParquetGroups all_groups = {0, std::numeric_limits<std::size_t>::max()};
};

enum class DocumentFault {
    invalid_utf8,
    invalid_json,
    missing_key,
    not_text,
    too_long,
    truncated,
    conversation,
    chat_template,  ///< the template fails with a plain question and its answer, too
};

/// As in "3 with invalid UTF-8".
constexpr auto words_of(DocumentFault) {
    using enum DocumentFault;
    return std::to_array<Word<DocumentFault>>({{invalid_utf8, "invalid UTF-8"},
                                               {invalid_json, "invalid JSON"},
                                               {missing_key, "a missing key"},
                                               {not_text, "a non-string value"},
                                               {too_long, "too many bytes"},
                                               {truncated, "a truncated last line"},
                                               {conversation, "an unusable conversation"},
                                               {chat_template, "a template that fails"}});
}
constexpr int document_fault_kinds = count_to(DocumentFault::chat_template);

struct FaultyDocument {
    DocumentFault fault;
    std::string what;  ///< one line, without the place
};

/// The name without the extension of a compressed file (.gz, .zst).
std::filesystem::path uncompressed_name(const std::filesystem::path& path);

/// True if the name ends in .json, .jsonl, .ndjson or .jsonlines, optionally followed by .gz or
/// .zst, in any case.
bool named_json_lines(const std::filesystem::path& path);

/// Warns if a file read as plain text looks like something else: a table by its name, or JSON
/// objects by its first lines. Empty if not. `start` is the beginning of the file.
std::string prose_warning(const std::filesystem::path& path, std::string_view start);

/// "FILE:LINE", or "FILE: row N".
std::string line_of(const Record& record, const std::filesystem::path& path);

/// "FILE:LINE: byte OFFSET", or "FILE: row N".
std::string place_of(const Record& record, const std::filesystem::path& path);

/// A reader that splits `path` as the format specifies, or reads its rows if its name is that of a
/// Parquet file.
std::unique_ptr<RecordSource> open_corpus(const std::filesystem::path& path,
                                          const CorpusFormat& format);

/// The fault of a record that is not JSON, from the Error of its parser.
FaultyDocument faulty_json(const Record& record, const Error& error);

/// Moves the document's text from the record to `text`, or returns its fault. With JSON lines the
/// text may be empty.
std::optional<FaultyDocument> take_document(Record& record, const CorpusFormat& format,
                                            std::string& text);

}  // namespace gptrain
