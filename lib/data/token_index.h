// The two files of a token data set, PREFIX.idx and PREFIX.bin; indexed_dataset.h has their layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <span>

#include "base/dtype.h"
#include "base/file.h"
#include "data/share.h"

namespace gptrain {

/// The prefix of the token files that a user means: the name as it stands if it has a file, else
/// with the `_text_document` that gpt-preprocess appends, or without it, if that has one.
std::filesystem::path token_prefix(const std::filesystem::path& name);

/// True if PREFIX.idx or PREFIX.bin exists.
bool has_token_file(const std::filesystem::path& prefix);

/// Throws Error (bad_input) if PREFIX.idx or PREFIX.bin of `token_prefix` is missing.
void require_token_files(const std::filesystem::path& prefix);

/// The memory-mapped files. Every entry of PREFIX.idx is checked where it is used: a fault is an
/// Error (bad_input) that names the file. Thread-safe for reading.
class TokenIndex {
public:
    /// The facts that only a read of the whole file shows. The facts of the shares combine:
    /// checksums by exclusive or, sequences by addition.
    struct Facts {
        std::uint32_t crc = 0;             ///< CRC-32C of the whole file, or a share's part of it
        std::int64_t begun_sequences = 0;  ///< those that have tokens
    };

    /// Opens both files and checks the header and the size of PREFIX.idx.
    explicit TokenIndex(const std::filesystem::path& prefix);

    const MappedFile& idx() const { return idx_; }
    const MappedFile& bin() const { return bin_; }
    /// u16 or i32.
    DType dtype() const { return dtype_; }
    std::int64_t num_sequences() const { return num_sequences_; }
    std::int64_t num_documents() const { return num_documents_; }
    std::int64_t num_tokens() const { return bin_bytes() / size_of(dtype_); }

    /// Tokens of a sequence.
    std::int64_t length(std::int64_t sequence) const;
    /// The first token of a sequence in PREFIX.bin; num_tokens() if `sequence` is num_sequences().
    std::int64_t first_token(std::int64_t sequence) const;
    /// First sequence of a document; num_sequences() if `document` is num_documents().
    std::int64_t document_begin(std::int64_t document) const;

    /// Checks a share of all lengths, offsets and document entries: sequences must follow each
    /// other and fill PREFIX.bin, documents must be in order and hold all sequences.
    Facts check(Share share) const;

private:
    std::int64_t bin_bytes() const { return std::ssize(bin_.bytes()); }
    void check_header();
    std::int64_t check_sequences(IndexRange range, bool last) const;
    void check_documents(IndexRange range, bool last) const;
    /// The share's part of the CRC of the file.
    std::uint32_t crc(Share share) const;
    std::int64_t raw_length(std::int64_t sequence) const;
    std::int64_t raw_offset(std::int64_t sequence) const;
    std::int64_t raw_document(std::int64_t entry) const;
    /// Where the sequence before `sequence` ends, in bytes.
    std::int64_t previous_end(std::int64_t sequence) const;
    std::span<const std::byte> lengths() const;
    std::span<const std::byte> offsets() const;
    std::span<const std::byte> documents() const;

    MappedFile idx_;
    MappedFile bin_;
    DType dtype_ = DType::u16;
    std::int64_t num_sequences_ = 0;
    std::int64_t num_documents_ = 0;
};

}  // namespace gptrain
