// Writes Megatron's token files (layout: indexed_dataset.h), byte for byte like its own tool
// (megatron/core/datasets/indexed_dataset.py, IndexedDatasetBuilder).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/temporary_file.h"
#include "data/loss_mask.h"
#include "data/token_meta.h"
#include "data/token_weights.h"

namespace gptrain {

/// u16 if the tokenizer has fewer than 65,500 pieces, else i32: Megatron's choice.
constexpr DType token_dtype(std::int64_t vocab_size) {
    return vocab_size < 65'500 ? DType::u16 : DType::i32;
}

/// The counts of the data that a writer has been given so far.
struct TokenCounts {
    std::int64_t sequences = 0;
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
};

/// PREFIX.bin and PREFIX.idx appear (or are replaced) only in `commit`, once both are complete and
/// durable, together with PREFIX.meta.json (token_meta.h) if a meta is given, PREFIX.mask
/// (loss_mask.h) if they are masked, PREFIX.weights (token_weights.h) if one of their learned
/// tokens has a weight below 1, and PREFIX.chat_template.jinja (chat_template_file.h) if a chat
/// template is given. Until then PREFIX.bin.tmp, PREFIX.idx.tmp, PREFIX.documents.tmp,
/// PREFIX.mask.tmp and PREFIX.weights.tmp grow; they are removed when the writer is destroyed and
/// when a signal ends the process. They are locked: two writers of one prefix are an Error (io) of
/// the second. Memory does not grow with the data: lengths and document entries are on disk, too.
/// Disk faults are Errors (io).
class IndexedWriter {
public:
    /// All files that a writer may publish.
    static std::vector<std::filesystem::path> files_of(const std::filesystem::path& prefix);

    /// The files that a writer has under temporary names.
    static std::vector<std::filesystem::path> unfinished_files_of(
        const std::filesystem::path& prefix);

    /// `dtype` is u16 or i32. `masked`: the files have a loss mask.
    IndexedWriter(const std::filesystem::path& prefix, DType dtype, bool masked = false);

    /// Adds a sequence to the current document. `learned`: 1 or 0 for each id if the files are
    /// masked, else empty. `weights`: those of the ids (TokenWeights), 0 where `learned` is; empty
    /// if all learned ones are 1. Ids that the type cannot hold, and more than 2^31 - 1 ids, are
    /// Errors (bug). More than 2^31 - 1 sequences, here and in append_part, are an Error
    /// (bad_input).
    void add_sequence(std::span<const std::int32_t> ids, std::span<const std::uint8_t> learned = {},
                      std::span<const float> weights = {});
    /// Ends the current document, which may be empty.
    void end_document();
    /// Makes everything added so far readable for another writer's `append_part`, also in another
    /// process, while this writer exists. Add nothing after it.
    void finish_part();
    /// Adds the documents of the finished part that another writer of the same type made with
    /// `prefix`, and empties its files. Error (io) if the part is missing or has other counts.
    void append_part(const std::filesystem::path& prefix, const TokenCounts& counts);
    /// Publishes the files. The writer fills in the documents, the tokens and the mask of `meta`.
    /// Without a meta, which masked files need, there will be no .meta.json; without a text of a
    /// chat template, no .chat_template.jinja.
    void commit(const std::optional<TokenMeta>& meta = std::nullopt,
                std::string_view chat_template = {});
    /// The files that `commit` published: "P.bin, .idx, .mask and .meta.json".
    const std::string& written() const { return written_; }

    const TokenCounts& counts() const { return counts_; }
    std::int64_t num_documents() const { return counts_.documents; }
    std::int64_t num_tokens() const { return counts_.tokens; }
    bool masked() const { return mask_.has_value(); }
    /// All of them if the files are not masked.
    std::int64_t learned_tokens() const { return mask_ ? mask_->packer.learned() : num_tokens(); }

private:
    /// An output file under a temporary name until `move_into_place`. Buffers small writes.
    class Spool {
    public:
        explicit Spool(const std::filesystem::path& path);
        void write(const void* bytes, std::size_t count);
        /// Writes all that the file will hold, durably.
        void write_whole(std::string_view contents);
        void flush();
        File& file() { return file_.file(); }
        /// Makes what was written so far durable.
        void sync();
        void move_into_place();

    private:
        std::vector<std::byte> buffer_;
        LockedFile file_;
    };

    /// The mask under its temporary name.
    struct Mask {
        Spool file;
        MaskPacker packer;
        std::vector<std::byte> bytes;

        explicit Mask(const std::filesystem::path& path);
        void add(std::span<const std::uint8_t> learned);
        void finish();
    };

    /// The weights under their temporary name, which becomes the file's if there are runs.
    struct Weights {
        Spool file;
        WeightPacker packer;
        std::vector<std::byte> bytes;

        explicit Weights(const std::filesystem::path& path);
        void add(std::int64_t first, std::span<const float> weights);
        void add_runs(std::span<const std::byte> runs, std::int64_t shift);
    };

    /// Error (bad_input) if the files cannot hold that many more sequences.
    void require_sequences(std::int64_t more) const;
    void append_mask(const std::filesystem::path& prefix, std::int64_t tokens);
    void append_weights(const std::filesystem::path& prefix);
    void write_offsets();
    void write_documents();
    /// The contents of .meta.json.
    std::string meta_text(TokenMeta meta) const;
    /// Replaces the old files by the new ones, with signals blocked. The last two may be missing.
    void replace_files(std::optional<Spool>& description, std::optional<Spool>& chat_template);

    std::filesystem::path bin_path_;
    std::filesystem::path idx_path_;
    std::filesystem::path meta_path_;
    std::filesystem::path mask_path_;
    std::filesystem::path weights_path_;
    std::filesystem::path template_path_;
    DType dtype_;
    Spool bin_;
    Spool idx_;
    Spool documents_;
    std::optional<Mask> mask_;
    std::optional<Weights> weights_;  ///< next to the mask
    TokenCounts counts_;
    std::string written_;
    std::vector<std::uint16_t> narrow_;
};

}  // namespace gptrain
