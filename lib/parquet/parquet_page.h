// The header of a page, and its parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace gptrain {

enum class ParquetPageType : std::int64_t { data = 0, index = 1, dictionary = 2, data_v2 = 3 };

enum class ParquetEncoding : std::int64_t {
    plain = 0,
    plain_dictionary = 2,
    rle = 3,
    bit_packed = 4,
    delta_binary_packed = 5,
    delta_length_byte_array = 6,
    delta_byte_array = 7,
    rle_dictionary = 8,
    byte_stream_split = 9,
};

struct ParquetPageHeader {
    ParquetPageType type{};
    std::int64_t unpacked_bytes = 0;  ///< of the page behind the header
    std::int64_t packed_bytes = 0;
    std::optional<std::uint32_t> crc;  ///< of the packed bytes
    std::int64_t values = 0;           ///< nulls and empty lists included
    ParquetEncoding encoding{};
    ParquetEncoding definitions{};  ///< version 1: the encodings of levels
    ParquetEncoding repetitions{};
    std::int64_t definition_bytes = 0;  ///< version 2
    std::int64_t repetition_bytes = 0;
    bool is_packed = true;         ///< version 2: the values are compressed
    std::size_t header_bytes = 0;  ///< of the header itself
};

/// Reads the header at the beginning of `bytes`, the rest of a chunk, and checks that its page fits
/// there. Error (bad_input), without a place.
ParquetPageHeader read_parquet_page_header(std::span<const std::byte> bytes);

}  // namespace gptrain
