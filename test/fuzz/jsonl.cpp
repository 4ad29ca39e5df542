// A file as JSON lines and as plain text: split into records, then documents. The text of each line
// is compared with what a full JSON parser finds.
#include <string>

#include "base/json.h"
#include "base/utf8.h"
#include "fuzz/target.h"
#include "support/temp_folder.h"
#include "text/documents.h"
#include "text/json_line.h"

using namespace gptrain;

namespace {

/// If both parsers accept a line, they find the same text. Our parser also accepts lines that the
/// other refuses: other keys may occur twice, and numbers may have any size.
void compare(const std::string& line) {
    std::string found;
    JsonText kind{};
    Json json;
    const bool taken = test::accepts(ExitCode::bad_input, "column ",
                                     [&] { kind = find_json_text(line, "text", found); });
    const bool parsed =
        test::accepts(ExitCode::bad_input, "line:", [&] { json = parse_json(line, "line"); });
    if (!parsed) return;
    GPTRAIN_CHECK(taken == json.is_object(), line);
    if (!taken) return;
    const auto member = json.find("text");
    GPTRAIN_CHECK((kind == JsonText::missing) == (member == json.end()), line);
    if (kind == JsonText::found) GPTRAIN_CHECK(*member == Json(found), line);
    if (kind == JsonText::not_a_string) GPTRAIN_CHECK(!member->is_string(), line);
}

void read_corpus(const std::filesystem::path& file, const CorpusFormat& format) {
    const auto reader = open_corpus(file, format);
    std::string document;
    std::int64_t end = 0;
    for (Record record; reader->next(record);) {
        GPTRAIN_CHECK(record.offset >= end && record.line > 0, record.offset);
        GPTRAIN_CHECK(std::ssize(record.bytes) <= format.max_document_bytes);
        end = record.offset + 1;
        const bool valid = find_invalid_utf8(record.bytes) == std::string::npos;
        if (valid && format.json_lines) compare(record.bytes);
        const auto fault = take_document(record, format, document);
        if (fault) test::note_refusal(fault->what);
        GPTRAIN_CHECK(fault || find_invalid_utf8(document) == std::string::npos);
    }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const test::TempFolder folder;
    const auto file = folder / "a.jsonl";
    test::fill(file, test::as_text(bytes, size));
    const CorpusFormat formats[] = {{.documents = RecordUnit::line, .max_document_bytes = 16},
                                    {.documents = RecordUnit::paragraph, .max_document_bytes = 64},
                                    {.documents = RecordUnit::file}};
    test::accepts(ExitCode::bad_input, file.string(),
                  [&] { read_corpus(file, {.json_lines = true}); });
    test::accepts(ExitCode::bad_input, file.string(),
                  [&] { read_corpus(file, formats[size % 3]); });
    return 0;
}
