// Splits files of text into records; memory is bounded by the longest record allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "text/input_file.h"
#include "text/record_source.h"

namespace gptrain {

/// The unit of a record: a line; a paragraph, up to blank lines; or the whole file.
enum class RecordUnit { line, paragraph, file };

/// Reads one file (or pipe) once, from start to end, decompressing gzip and zstd data. Lines end in
/// LF or CRLF; inside a record CRLF becomes LF. A UTF-8 byte order mark at the start is skipped.
/// Blank lines are not records, but with RecordUnit::file they are part of the record.
class RecordReader final : public RecordSource {
public:
    /// Errors (bad_input): those of InputFile, and a file whose first bytes show that it is not
    /// text: compressed in another format, an archive, or UTF-16.
    RecordReader(const std::filesystem::path& path, RecordUnit unit, std::int64_t max_record_bytes);
    bool next(Record& record) override;
    std::string_view start() const override { return {block_.data(), filled_}; }
    std::int64_t position() const override { return block_start_ + static_cast<std::int64_t>(at_); }

private:
    struct Line {
        bool any = false;       // false: the file had already ended
        bool complete = false;  // ended by a line feed
        bool blank = false;
        bool too_long = false;
    };

    bool fill();
    void check_start() const;
    Line read_line(std::string& bytes);
    bool next_line(Record& record);
    bool next_joined(Record& record);

    InputFile file_;
    RecordUnit unit_;
    std::size_t max_bytes_;
    std::vector<char> block_;
    std::size_t filled_ = 0;
    std::size_t at_ = 0;
    std::int64_t block_start_ = 0;
    std::int64_t line_ = 0;
    std::string line_bytes_;
};

}  // namespace gptrain
