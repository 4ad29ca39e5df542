// The metadata in the footer of a Parquet file (apache/parquet-format, parquet.thrift).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codec/block_decompressor.h"
#include "parquet/parquet_schema.h"

namespace gptrain {

/// The values of a leaf in one row group. They lie at [begin, begin + bytes) of the file, as pages.
struct ParquetColumnChunk {
    std::int64_t codec = 0;   ///< as in the file
    std::int64_t values = 0;  ///< nulls and empty lists included
    std::int64_t begin = 0;
    std::int64_t bytes = 0;
    std::string unread;  ///< why it cannot be read; empty: it can
};

struct ParquetRowGroup {
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
    std::vector<ParquetColumnChunk> columns;  ///< one for each leaf
};

struct ParquetMetadata {
    ParquetNode root;
    std::int64_t rows = 0;
    std::vector<ParquetRowGroup> groups;
};

/// Parses a footer. `data_bytes`: the size of the file before it, in which all chunks must lie.
/// Error (bad_input), without a place.
ParquetMetadata read_parquet_metadata(std::span<const std::byte> footer, std::int64_t data_bytes);

}  // namespace gptrain
