#include "tasks/task_documents.h"

#include <memory>
#include <utility>

#include "base/file.h"
#include "base/utf8.h"
#include "parquet/parquet_file.h"
#include "tasks/clean_text.h"
#include "text/documents.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_text_bytes = std::int64_t{1} << 30;

void check_record(const Record& record, const std::string& place) {
    if (record.too_long)
        fail(ExitCode::bad_input, place, ": longer than ", max_text_bytes, " bytes");
    const std::size_t invalid = find_invalid_utf8(record.bytes);
    if (invalid != std::string::npos)
        fail(ExitCode::bad_input, place, ": invalid UTF-8 at its byte ", invalid);
}

/// True if lines or rows of the file are JSON objects.
bool has_objects(const std::filesystem::path& path) {
    return named_json_lines(path) || named_parquet(path);
}

Json fields_of(const std::string& line, const std::string& place) {
    Json fields = parse_json(line, place);
    if (!fields.is_object()) fail(ExitCode::bad_input, place, ": not a JSON object");
    return fields;
}

Json text_field(std::string text) {
    return {{"text", std::move(text)}};
}

std::unique_ptr<RecordSource> open_records(const std::filesystem::path& path, RecordUnit unit,
                                           std::string_view folder_key) {
    using enum std::filesystem::file_type;
    const auto type =
        require_path(path, ExitCode::bad_input, "data file of a task", text("; see ", folder_key));
    if (type != regular && type != directory) {
        fail(ExitCode::bad_input, path.string(),
             ": a device or a pipe; write what it gives to a file, which can be read again");
    }
    return open_corpus(
        path, {.documents = unit, .max_document_bytes = max_text_bytes, .whole_rows = true});
}

void add_labels(const TaskFile& file, bool all, std::vector<TaskDocument>& documents) {
    const std::filesystem::path& path = *file.labels;
    if (named_parquet(path))
        fail(ExitCode::bad_input, path.string(), ": labels are the lines of a text file");
    const auto reader = open_records(path, RecordUnit::line, file.folder_key);
    std::size_t count = 0;
    for (Record record; (all || count < documents.size()) && reader->next(record); ++count) {
        check_record(record, line_of(record, path));
        if (count < documents.size()) documents[count].fields["label"] = record.bytes;
    }
    if (count == documents.size()) return;
    fail(ExitCode::bad_input, path.string(), ": has ", count, " labels, but there are ",
         documents.size(), " documents");
}

/// Each line or row is a JSON object, or each line the text of a document.
std::vector<TaskDocument> read_lines(const TaskFile& file, std::optional<std::int64_t> limit) {
    const std::filesystem::path& path = file.path;
    const bool json = has_objects(path);
    const auto reader = open_records(path, RecordUnit::line, file.folder_key);
    std::vector<TaskDocument> documents;
    for (Record record; (!limit || std::ssize(documents) < *limit) && reader->next(record);) {
        const std::string place = line_of(record, path);
        check_record(record, place);
        documents.push_back(
            {json ? fields_of(record.bytes, place) : text_field(record.bytes), place});
    }
    return documents;
}

std::vector<TaskDocument> read_plain_text(const TaskFile& file, std::optional<std::int64_t> limit) {
    const auto reader = open_records(file.path, RecordUnit::file, file.folder_key);
    std::vector<TaskDocument> documents;
    Record record;
    if (!reader->next(record)) return documents;
    const std::string place = file.path.string();
    check_record(record, place);
    const bool whole = file.documents == PlainText::whole;
    for (std::string& part : whole ? std::vector{record.bytes} : wikitext_pages(record.bytes)) {
        if (limit && std::ssize(documents) == *limit) break;
        documents.push_back({text_field(std::move(part)), place});
    }
    return documents;
}

}  // namespace

std::vector<TaskDocument> read_task_documents(const TaskFile& file,
                                              std::optional<std::int64_t> limit) {
    const bool by_lines = has_objects(file.path) || file.documents == PlainText::lines;
    std::vector<TaskDocument> documents =
        by_lines ? read_lines(file, limit) : read_plain_text(file, limit);
    if (documents.empty()) fail(ExitCode::bad_input, file.path.string(), ": has no documents");
    if (file.labels) add_labels(file, !limit, documents);
    return documents;
}

}  // namespace gptrain
