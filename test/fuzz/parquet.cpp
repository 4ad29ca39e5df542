// A Parquet file: its metadata, then the texts of the column "text", and whole rows.
#include "base/json.h"
#include "fuzz/target.h"
#include "support/temp_folder.h"
#include "text/documents.h"

using namespace gptrain;

namespace {

// A few bytes may stand for many rows.
constexpr int most_rows = 200;
constexpr std::int64_t most_bytes = 1 << 16;

void read_rows(const std::filesystem::path& file, bool whole) {
    const auto source = open_corpus(
        file, {.json_lines = true, .max_document_bytes = most_bytes, .whole_rows = whole});
    Record record;
    for (int row = 0; row < most_rows && source->next(record); ++row) {
        GPTRAIN_CHECK(record.line >= row && std::ssize(record.bytes) <= most_bytes);
        GPTRAIN_CHECK(whole == (record.kind == Record::Kind::row) ||
                      record.bytes == "{\"text\":null}");
        std::string text;
        const auto fault =
            take_document(record, {.json_lines = !whole, .max_document_bytes = most_bytes}, text);
        if (fault) test::note_refusal(fault->what);
        // A row is a JSON object, unless a name or a text of it is no UTF-8.
        if (whole && !fault)
            test::accepts(ExitCode::bad_input, "row", [&] { parse_json(text, "row"); });
    }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const test::TempFolder folder;
    const auto file = folder / "a.parquet";
    test::fill(file, test::as_text(bytes, size));
    for (const bool whole : {false, true})
        test::accepts(ExitCode::bad_input, file.string(), [&] { read_rows(file, whole); });
    return 0;
}
