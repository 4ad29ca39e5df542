// Megatron's token files. PREFIX.bin holds the ids of all sequences back to back; PREFIX.idx says
// where each one starts. Everything is little-endian and packed:
//   idx   0  9 bytes  "MMIDIDX" and two zero bytes
//   idx   9  u64      version, 1
//   idx  17  u8       type of an id: 4 i32, 8 u16 (Megatron has others; token ids use these two)
//   idx  18  u64      N, number of sequences
//   idx  26  u64      D, number of entries of the document index (documents + 1)
//   idx  34  i32[N]   tokens of each sequence
//            i64[N]   byte offset of each sequence in .bin
//            i64[D]   document index: document d is the sequences [index[d], index[d + 1])
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/dtype.h"
#include "base/file.h"

namespace gptrain {

/// Throws Error (bad_input) if PREFIX.idx or PREFIX.bin is missing.
void require_token_files(const std::filesystem::path& prefix);

/// A validated, memory-mapped token data set. Thread-safe for reading.
class IndexedDataset {
public:
    /// Opens PREFIX.idx and PREFIX.bin. Validates every header field, length, offset and document
    /// entry against the sizes of both files before using it; a fault is an Error (bad_input) that
    /// names the file. It does not read ids: the loader checks those that it uses.
    explicit IndexedDataset(const std::filesystem::path& prefix);

    const std::filesystem::path& prefix() const { return prefix_; }
    const std::filesystem::path& bin_path() const { return bin_.path(); }
    /// u16 or i32.
    DType dtype() const { return dtype_; }
    std::int64_t num_sequences() const { return num_sequences_; }
    std::int64_t num_documents() const { return num_documents_; }
    std::int64_t num_tokens() const { return num_tokens_; }

    /// Number of tokens of a sequence; may be 0.
    std::int64_t sequence_length(std::int64_t sequence) const;
    /// First sequence of a document; num_sequences() if `document` is num_documents().
    std::int64_t document_begin(std::int64_t document) const;

    /// Writes tokens [begin, begin + count) of a sequence to `out`. A range outside the sequence is
    /// an Error (bug).
    void read(std::int64_t sequence, std::int64_t begin, std::int64_t count,
              std::int32_t* out) const;

    /// A cheap identity of the contents: "idx-bytes.crc-bin-bytes.crc", with the CRC-32C of the
    /// whole .idx and of .bin: all of it up to 1 MiB, else 256 blocks of 4 KiB spread evenly over
    /// it. Data sets that differ only between those blocks look equal.
    const std::string& fingerprint() const { return fingerprint_; }

private:
    void check_header();
    void check_sequences();
    void check_documents() const;
    std::string make_fingerprint() const;
    const std::byte* lengths() const;
    const std::byte* offsets() const;
    const std::byte* documents() const;

    std::filesystem::path prefix_;
    MappedFile idx_;
    MappedFile bin_;
    DType dtype_ = DType::u16;
    std::int64_t num_sequences_ = 0;
    std::int64_t num_documents_ = 0;
    std::int64_t num_tokens_ = 0;
    std::string fingerprint_;
};

}  // namespace gptrain
