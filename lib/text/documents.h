// Turns records of corpus files into documents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/words.h"
#include "text/record_reader.h"

namespace gptrain {

/// How a corpus file is split into documents.
struct CorpusFormat {
    bool json_lines = false;  ///< one JSON object per line, with the text under `json_key`
    std::string json_key = "text";
    RecordUnit documents = RecordUnit::paragraph;  ///< plain text: the unit of a document
    std::int64_t max_document_bytes = std::int64_t{64} << 20;  ///< limit of a line or document
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

/// True if the name ends in .json or .jsonl, optionally followed by .gz or .zst.
bool named_json_lines(const std::filesystem::path& path);

/// Warns if a file read as plain text looks like something else: a table by its name, or JSON
/// objects by its first lines. Empty if not. `start` is the beginning of the file.
std::string prose_warning(const std::filesystem::path& path, std::string_view start);

/// "FILE:LINE: byte OFFSET"
std::string place_of(const Record& record, const std::filesystem::path& path);

/// A reader that splits `path` as the format specifies.
RecordReader open_corpus(const std::filesystem::path& path, const CorpusFormat& format);

/// The fault of a record that is not JSON, from the Error of its parser.
FaultyDocument faulty_json(const Record& record, const Error& error);

/// Moves the document's text from the record to `text`, or returns its fault. With JSON lines the
/// text may be empty.
std::optional<FaultyDocument> take_document(Record& record, const CorpusFormat& format,
                                            std::string& text);

}  // namespace gptrain
