// The records of a corpus file, whatever its format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gptrain {

struct Record {
    enum class Kind {
        part,      ///< of a file of text, as RecordUnit says
        row,       ///< of a table, as a JSON object
        row_text,  ///< the text in a column of a row
    };

    std::string bytes;  ///< of a whole file with its final line feed, others without; empty if too
                        ///< long
    std::int64_t line = 0;    ///< of its first byte, from 1; of a row: its number, from 0
    std::int64_t offset = 0;  ///< of a part's first byte in the (decompressed) file
    bool too_long = false;
    bool unfinished = false;  ///< the file ends in it, without a line feed
    Kind kind = Kind::part;
};

/// Reads one file once, from start to end.
class RecordSource {
public:
    virtual ~RecordSource() = default;

    /// False at the end of the file.
    virtual bool next(Record& record) = 0;
    /// The first bytes of a file of text, up to 1 MiB. Call it before `next`.
    virtual std::string_view start() const { return {}; }
    /// Number of (decompressed) bytes consumed so far.
    virtual std::int64_t position() const = 0;
};

}  // namespace gptrain
