// A Parquet file, mapped for reading.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "parquet/parquet_metadata.h"

namespace gptrain {

/// True if the name ends in .parquet, in any case.
bool named_parquet(const std::filesystem::path& path);

/// Reads strings, numbers, booleans, and lists, structs and maps of them: pages of both versions;
/// the encodings PLAIN, dictionary, RLE, DELTA_* and BYTE_STREAM_SPLIT; Snappy, gzip, zstd and LZ4.
/// Errors (bad_input) name the file; those of a column also row group, column, page and row.
class ParquetFile {
public:
    /// Reads the footer.
    explicit ParquetFile(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return file_.path(); }
    std::span<const std::byte> bytes() const { return file_.bytes(); }
    const ParquetMetadata& metadata() const { return metadata_; }
    const ParquetNode& root() const { return metadata_.root; }
    /// The column of texts of this name. Error if there is none, or it holds something else.
    const ParquetNode& text_column(std::string_view name) const;

private:
    MappedFile file_;
    ParquetMetadata metadata_;
};

/// The stored bytes of each row group.
std::vector<std::int64_t> group_bytes(const ParquetFile& file);

}  // namespace gptrain
