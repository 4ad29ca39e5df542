#include "parquet/parquet_file.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/letters.h"

namespace gptrain {
namespace {

constexpr std::string_view magic = "PAR1";
constexpr std::string_view encrypted_magic = "PARE";
constexpr std::int64_t max_footer_bytes = std::int64_t{1} << 28;

[[noreturn]] void refuse_file(const std::filesystem::path& path, const auto&... parts) {
    fail(ExitCode::bad_input, path.string(), ": ", parts...);
}

MappedFile mapped(const std::filesystem::path& path) {
    using enum std::filesystem::file_type;
    const auto type = require_path(path, ExitCode::bad_input, "file");
    if (type == directory) refuse_file(path, "a folder, not a Parquet file");
    if (type != regular)
        refuse_file(path, "Parquet cannot be read from a pipe; write it to a file");
    return MappedFile(path);
}

ParquetMetadata read_footer(const std::filesystem::path& path, std::span<const std::byte> bytes) {
    const auto text_at = [&](std::size_t begin) {
        return std::string_view(reinterpret_cast<const char*>(bytes.data()) + begin, magic.size());
    };
    constexpr std::size_t tail = 8;  // size and magic
    const std::size_t size = bytes.size();
    if (size < magic.size() + tail || text_at(0) != magic)
        refuse_file(path, "named .parquet, but not a Parquet file; copy it again");
    const std::string_view end = text_at(size - magic.size());
    if (end == encrypted_magic) refuse_file(path, "an encrypted Parquet file, which is not read");
    if (end != magic) refuse_file(path, "a Parquet file that is cut off; copy it again");
    const auto footer = static_cast<std::int64_t>(
        value_at<std::uint32_t>(bytes, static_cast<std::int64_t>(size - tail)));
    const auto data = static_cast<std::int64_t>(size - tail) - footer;
    if (data < static_cast<std::int64_t>(magic.size()))
        refuse_file(path, "damaged metadata: longer than the file");
    if (footer > max_footer_bytes)
        refuse_file(path, "metadata of ", footer, " bytes; the most is ", max_footer_bytes);
    try {
        return read_parquet_metadata(
            bytes.subspan(static_cast<std::size_t>(data), static_cast<std::size_t>(footer)), data);
    } catch (const Error& error) {
        refuse_file(path, error.what());
    }
}

bool is_text(const ParquetNode& column) {
    return column.type == ParquetType::byte_array && column.unread.empty() &&
           column.repetition != ParquetNode::Repetition::repeated;
}

/// "; its columns with text are 'a', 'b'", for the columns whose names fit a message.
std::string text_columns(const ParquetNode& root) {
    constexpr int most = 8;
    std::string names;
    int count = 0;
    for (const ParquetNode& column : root.children) {
        const auto is_control = [](unsigned char c) { return c < 32 || c == 127; };
        if (!is_text(column) || column.name.size() > 40 ||
            std::any_of(column.name.begin(), column.name.end(), is_control))
            continue;
        if (++count > most) return names + ", ...";
        append(names, text(count > 1 ? ", '" : "; its columns with text are '", column.name, "'"));
    }
    return names;
}

}  // namespace

bool named_parquet(const std::filesystem::path& path) {
    return in_lower_case(path.extension().string()) == ".parquet";
}

ParquetFile::ParquetFile(const std::filesystem::path& path)
    : file_(mapped(path)), metadata_(read_footer(path, file_.bytes())) {}

const ParquetNode& ParquetFile::text_column(std::string_view name) const {
    const auto& columns = root().children;
    const auto has_name = [&](const ParquetNode& column) { return column.name == name; };
    const auto found = std::find_if(columns.begin(), columns.end(), has_name);
    if (found == columns.end())
        refuse_file(path(), "has no column '", name, "'", text_columns(root()),
                    ": choose one with --json-key");
    if (!is_text(*found))
        refuse_file(path(), "its column '", name, "' does not hold texts", text_columns(root()),
                    ": choose one with --json-key");
    if (std::count_if(columns.begin(), columns.end(), has_name) > 1)
        refuse_file(path(), "has two columns '", name, "'");
    return *found;
}

std::vector<std::int64_t> group_bytes(const ParquetFile& file) {
    std::vector<std::int64_t> sizes;
    for (const ParquetRowGroup& group : file.metadata().groups) {
        std::int64_t& bytes = sizes.emplace_back();
        for (const ParquetColumnChunk& column : group.columns)
            bytes = checked_add(bytes, column.bytes);
    }
    return sizes;
}

}  // namespace gptrain
