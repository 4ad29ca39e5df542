// Writes Megatron's token files (layout: indexed_dataset.h) byte for byte as its own tool does
// (megatron/core/datasets/indexed_dataset.py, IndexedDatasetBuilder).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/temporary_file.h"

namespace gptrain {

/// u16 for a tokenizer of fewer than 65,500 pieces, else i32: what Megatron's tool chooses.
constexpr DType token_dtype(std::int64_t vocab_size) {
    return vocab_size < 65'500 ? DType::u16 : DType::i32;
}

/// PREFIX.bin and PREFIX.idx appear (or are replaced) only in `commit`, when both are whole and on
/// the disk; until then PREFIX.bin.tmp, PREFIX.idx.tmp and PREFIX.documents.tmp grow, which are
/// removed when the writer goes and when a signal ends the process. Memory does not grow with the
/// data: lengths and document entries are on the disk as well. Faults of the disk are Errors (io).
class IndexedWriter {
public:
    /// `dtype`: u16 or i32.
    IndexedWriter(const std::filesystem::path& prefix, DType dtype);

    /// One more sequence of the current document. Ids that the type cannot hold, and more than
    /// 2^31 - 1 ids, are Errors (bug).
    void add_sequence(std::span<const std::int32_t> ids);
    /// Ends the current document; one without sequences is kept.
    void end_document();
    /// Makes the files appear.
    void commit();

    std::int64_t num_sequences() const { return num_sequences_; }
    std::int64_t num_documents() const { return num_documents_; }
    std::int64_t num_tokens() const { return num_tokens_; }
    const std::filesystem::path& bin_path() const { return bin_path_; }
    const std::filesystem::path& idx_path() const { return idx_path_; }

private:
    /// The file that is to be `path`, under a temporary name until `move_into_place`; collects
    /// small writes.
    class Spool {
    public:
        explicit Spool(const std::filesystem::path& path);
        void write(const void* bytes, std::size_t count);
        void flush();
        File& file() { return file_; }
        void move_into_place();

    private:
        std::filesystem::path path_;
        TemporaryFile temporary_;
        File file_;
        std::vector<std::byte> buffer_;
    };

    void write_offsets();
    void write_documents();
    /// Puts the new files in the place of the old ones; no signal comes between.
    void replace_files();

    std::filesystem::path bin_path_;
    std::filesystem::path idx_path_;
    DType dtype_;
    Spool bin_;
    Spool idx_;
    Spool documents_;
    std::int64_t num_sequences_ = 0;
    std::int64_t num_documents_ = 0;
    std::int64_t num_tokens_ = 0;
    std::vector<std::uint16_t> narrow_;
};

}  // namespace gptrain
