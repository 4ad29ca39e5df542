// Cuts corpus files into records, with memory bounded by the longest record that is allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"

namespace gptrain {

/// What a record is: a line; a paragraph, which blank lines end; or the whole file.
enum class Cut { line, paragraph, file };

struct Record {
    std::string bytes;        ///< without the line feed that ends it; empty if too long
    std::int64_t line = 0;    ///< of its first byte, from 1
    std::int64_t offset = 0;  ///< of its first byte in the file
    bool too_long = false;
    bool unfinished = false;  ///< the file ends in it, without a line feed
};

/// Reads one file once, from its start to its end; pipes are welcome. Lines end in LF or CRLF,
/// inside a record CRLF becomes LF; a UTF-8 byte order mark at the start is no part of a record;
/// blank lines are no records, except that with Cut::file they are part of the one.
class RecordReader {
public:
    /// A file that is missing, a folder, or compressed or in UTF-16 by its first bytes is an Error
    /// (bad_input).
    RecordReader(const std::filesystem::path& path, Cut cut, std::int64_t max_record_bytes);
    /// False at the end of the file.
    bool next(Record& record);
    /// Bytes taken from the file so far.
    std::int64_t position() const { return block_start_ + static_cast<std::int64_t>(at_); }

private:
    struct Line {
        bool any = false;       // false: the file had ended
        bool complete = false;  // it ended in a line feed
        bool blank = false;
        bool too_long = false;
    };

    bool fill();
    void check_start() const;
    Line read_line(std::string& bytes);
    bool next_line(Record& record);
    bool next_joined(Record& record);

    File file_;
    Cut cut_;
    std::size_t max_bytes_;
    std::vector<char> block_;
    std::size_t filled_ = 0;
    std::size_t at_ = 0;
    std::int64_t block_start_ = 0;
    std::int64_t line_ = 0;
    std::string line_bytes_;
};

}  // namespace gptrain
