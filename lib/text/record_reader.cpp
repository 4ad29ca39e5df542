#include "text/record_reader.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace gptrain {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::string_view blanks = " \t\r\v\f";

struct Signature {
    std::string_view bytes;
    std::string_view what;
    std::size_t offset = 0;
};

constexpr std::array<Signature, 10> foreign_formats = {{
    {"\x1F\x8B", "gzip data inside compressed data; decompress it first (zcat)"},
    {{"ustar\0", 6}, "a tar archive; unpack it first", 257},
    {{"ustar  \0", 8}, "a tar archive; unpack it first", 257},
    {"\x28\xB5\x2F\xFD", "zstd data inside compressed data; decompress it first (zstdcat)"},
    {"\xFD"
     "7zXZ",
     "xz data; decompress it first (xzcat)"},
    {"BZh91AY&SY", "bzip2 data; decompress it first (bzcat)"},
    {"PK\x03\x04", "a zip archive; unpack it first"},
    {"PAR1", "a Parquet file; let its name end in .parquet"},
    {"\xFF\xFE", "UTF-16 text; convert it to UTF-8 first (iconv -f UTF-16)"},
    {"\xFE\xFF", "UTF-16 text; convert it to UTF-8 first (iconv -f UTF-16)"},
}};

}  // namespace

RecordReader::RecordReader(const std::filesystem::path& path, RecordUnit unit,
                           std::int64_t max_record_bytes)
    : file_(path),
      unit_(unit),
      max_bytes_(static_cast<std::size_t>(max_record_bytes)),
      block_(block_bytes) {
    fill();
    check_start();
    if (std::string_view(block_.data(), filled_).starts_with(byte_order_mark)) {
        at_ = byte_order_mark.size();
    }
}

void RecordReader::check_start() const {
    const std::string_view start(block_.data(), filled_);
    for (const Signature& format : foreign_formats) {
        if (start.substr(std::min(start.size(), format.offset)).starts_with(format.bytes)) {
            fail(ExitCode::bad_input, file_.path().string(), ": this is ", format.what);
        }
    }
}

bool RecordReader::fill() {
    block_start_ += static_cast<std::int64_t>(filled_);
    filled_ = file_.read(std::as_writable_bytes(std::span(block_)));
    at_ = 0;
    return filled_ > 0;
}

RecordReader::Line RecordReader::read_line(std::string& bytes) {
    bytes.clear();
    Line line;
    while (!line.complete && (at_ < filled_ || fill())) {
        line.any = true;
        const std::string_view rest(block_.data() + at_, filled_ - at_);
        const std::size_t end = rest.find('\n');
        line.complete = end != std::string_view::npos;
        const std::string_view part = rest.substr(0, end);
        if (bytes.size() + part.size() > max_bytes_) line.too_long = true;
        if (line.too_long) {
            bytes.clear();
        } else {
            bytes += part;
        }
        at_ += part.size() + (line.complete ? 1 : 0);
    }
    if (line.any) ++line_;
    if (line.complete && bytes.ends_with('\r')) bytes.pop_back();
    line.blank = !line.too_long && bytes.find_first_not_of(blanks) == std::string::npos;
    return line;
}

bool RecordReader::next(Record& record) {
    return unit_ == RecordUnit::line ? next_line(record) : next_joined(record);
}

bool RecordReader::next_line(Record& record) {
    while (true) {
        record.offset = position();
        const Line line = read_line(record.bytes);
        if (!line.any) return false;
        if (line.blank) continue;
        record.line = line_;
        record.too_long = line.too_long;
        record.unfinished = !line.complete;
        return true;
    }
}

bool RecordReader::next_joined(Record& record) {
    record.bytes.clear();
    record.too_long = false;
    bool begun = false;
    bool open_line = false;
    while (true) {
        const std::int64_t offset = position();
        const Line line = read_line(line_bytes_);
        const bool ends = !line.any || (line.blank && unit_ == RecordUnit::paragraph);
        if (ends && (begun || !line.any)) return begun;
        if (ends) continue;
        if (!begun) {
            record.line = line_;
            record.offset = offset;
        }
        begun = true;
        const std::size_t bytes = record.bytes.size() + line_bytes_.size() + (open_line ? 1 : 0);
        record.too_long = record.too_long || line.too_long || bytes > max_bytes_;
        record.unfinished = !line.complete;
        if (record.too_long) {
            record.bytes.clear();
            continue;
        }
        if (open_line) record.bytes += '\n';
        record.bytes += line_bytes_;
        open_line = line.complete;
        if (unit_ == RecordUnit::file && line.complete) {
            record.bytes += '\n';
            open_line = false;
        }
    }
}

}  // namespace gptrain
