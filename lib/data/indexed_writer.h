// Writes Megatron's token files (layout: indexed_dataset.h) byte for byte as its own tool does
// (megatron/core/datasets/indexed_dataset.py, IndexedDatasetBuilder).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/temporary_file.h"
#include "data/token_meta.h"

namespace gptrain {

/// u16 for a tokenizer of fewer than 65,500 pieces, else i32: what Megatron's tool chooses.
constexpr DType token_dtype(std::int64_t vocab_size) {
    return vocab_size < 65'500 ? DType::u16 : DType::i32;
}

/// PREFIX.bin and PREFIX.idx appear (or are replaced) only in `commit`, when both are whole and on
/// the disk, with PREFIX.meta.json (token_meta.h) where something is known of the tokens; until
/// then PREFIX.bin.tmp, PREFIX.idx.tmp and PREFIX.documents.tmp grow, which are
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
    /// Makes the files appear. Documents and tokens of `meta` are the writer's; without one there
    /// is no .meta.json afterwards.
    void commit(const std::optional<TokenMeta>& meta = std::nullopt);

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
        std::vector<std::byte> buffer_;
        File file_;  ///< last: what fails before it leaves no file
    };

    void write_offsets();
    void write_documents();
    /// Brings it to the disk under its temporary name.
    void write_meta(TokenMeta meta, Spool& to) const;
    /// Puts the new files in the place of the old ones; no signal comes between.
    void replace_files(std::optional<Spool>& description);

    std::filesystem::path bin_path_;
    std::filesystem::path idx_path_;
    std::filesystem::path meta_path_;
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
