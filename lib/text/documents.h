// Records of corpus files to documents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "text/record_reader.h"

namespace gptrain {

/// How a corpus file becomes documents.
struct CorpusFormat {
    bool json_lines = false;  ///< one JSON object a line, the text under `json_key`
    std::string json_key = "text";
    Cut documents = Cut::paragraph;                            ///< plain text: what is a document
    std::int64_t max_document_bytes = std::int64_t{64} << 20;  ///< of a line or document as stored
};

enum class DocumentFault { invalid_utf8, invalid_json, missing_key, not_text, too_long, truncated };

/// Words for a fault, as in "3 with invalid UTF-8".
std::string_view name_of(DocumentFault fault);
constexpr int document_fault_kinds = 6;

struct FaultyDocument {
    DocumentFault fault;
    std::string what;  ///< one line; does not name the place
};

/// Whether a file's name says JSON lines: .json or .jsonl, with or without .gz behind it.
bool named_json_lines(const std::filesystem::path& path);

/// A warning about a file that is read as plain text and looks like something else (a table by its
/// name, JSON objects by its first lines); empty if it does not. `start`: its first bytes.
std::string prose_warning(const std::filesystem::path& path, std::string_view start);

/// "FILE:LINE: byte OFFSET"
std::string place_of(const Record& record, const std::filesystem::path& path);

/// A reader that cuts `path` as the format says.
RecordReader open_corpus(const std::filesystem::path& path, const CorpusFormat& format);

/// Moves the document's text out of the record into `text`, or says what is wrong with it. The text
/// may be empty in JSON lines.
std::optional<FaultyDocument> take_document(Record& record, const CorpusFormat& format,
                                            std::string& text);

}  // namespace gptrain
