// Cuts corpus files into records, with memory bounded by the longest record that is allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "text/input_file.h"

namespace gptrain {

/// What a record is: a line; a paragraph, which blank lines end; or the whole file.
enum class Cut { line, paragraph, file };

struct Record {
    std::string bytes;        ///< without the line feed that ends it; empty if too long
    std::int64_t line = 0;    ///< of its first byte, from 1
    std::int64_t offset = 0;  ///< of its first byte in the file (unpacked, where that is gzip data)
    bool too_long = false;
    bool unfinished = false;  ///< the file ends in it, without a line feed
};

/// Reads one file once, from its start to its end; pipes are welcome, gzip data are unpacked. Lines
/// end in LF or CRLF, inside a record CRLF becomes LF; a UTF-8 byte order mark at the start is no
/// part of a record; blank lines are no records, except that with Cut::file they are part of the
/// one.
class RecordReader {
public:
    /// Errors (bad_input) are those of InputFile, and a file that its first bytes show to be no
    /// text: compressed in another way, an archive, in UTF-16.
    RecordReader(const std::filesystem::path& path, Cut cut, std::int64_t max_record_bytes);
    /// False at the end of the file.
    bool next(Record& record);
    /// The first bytes of the file, up to 1 MiB; to be asked for before `next`.
    std::string_view start() const { return {block_.data(), filled_}; }
    /// Bytes taken from the file (unpacked) so far.
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

    InputFile file_;
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
