#include "text/documents.h"

#include <utility>

#include "base/error.h"
#include "text/json_line.h"
#include "text/utf8.h"

namespace gptrain {
namespace {

std::optional<FaultyDocument> take_json_text(const Record& record, const std::string& key,
                                             std::string& text_out) {
    try {
        switch (find_json_text(record.bytes, key, text_out)) {
            case JsonText::found: return std::nullopt;
            case JsonText::missing:
                return FaultyDocument{DocumentFault::missing_key,
                                      text("the key '", key, "' is missing")};
            case JsonText::not_a_string:
                return FaultyDocument{DocumentFault::not_text,
                                      text("the value of '", key, "' should be a string")};
        }
    } catch (const Error& error) {
        if (record.unfinished) {
            return FaultyDocument{DocumentFault::truncated,
                                  text("the file ends inside this line: ", error.what())};
        }
        return FaultyDocument{DocumentFault::invalid_json, text("invalid JSON, ", error.what())};
    }
    return std::nullopt;
}

}  // namespace

std::string_view name_of(DocumentFault fault) {
    switch (fault) {
        case DocumentFault::invalid_utf8: return "invalid UTF-8";
        case DocumentFault::invalid_json: return "invalid JSON";
        case DocumentFault::missing_key: return "a missing key";
        case DocumentFault::not_text: return "a value that is no string";
        case DocumentFault::too_long: return "too many bytes";
        case DocumentFault::truncated: return "a truncated last line";
    }
    return "?";
}

RecordReader open_corpus(const std::filesystem::path& path, const CorpusFormat& format) {
    return {path, format.json_lines ? Cut::line : format.documents, format.max_document_bytes};
}

std::optional<FaultyDocument> take_document(Record& record, const CorpusFormat& format,
                                            std::string& text_out) {
    if (record.too_long) {
        return FaultyDocument{DocumentFault::too_long,
                              text("longer than ", format.max_document_bytes,
                                   " bytes, the limit set by --max-document-bytes")};
    }
    const std::size_t invalid = find_invalid_utf8(record.bytes);
    if (invalid != std::string::npos) {
        return FaultyDocument{DocumentFault::invalid_utf8,
                              text("invalid UTF-8 at byte ", invalid, " of it")};
    }
    if (format.json_lines) return take_json_text(record, format.json_key, text_out);
    text_out.swap(record.bytes);
    return std::nullopt;
}

}  // namespace gptrain
