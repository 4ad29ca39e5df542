// Megatron's token files. PREFIX.bin holds the ids of all sequences back to back; PREFIX.idx
// records where each one starts. Everything is little-endian and packed:
//   idx   0  9 bytes  "MMIDIDX" and two zero bytes
//   idx   9  u64      version, 1
//   idx  17  u8       type of an id: 4 i32, 8 u16 (Megatron has others; token ids use these two)
//   idx  18  u64      N, number of sequences
//   idx  26  u64      D, number of entries of the document index (documents + 1)
//   idx  34  i32[N]   tokens of each sequence
//            i64[N]   byte offset of each sequence in .bin
//            i64[D]   document index: document d is the sequences [index[d], index[d + 1])
// Next to them there may be PREFIX.meta.json (token_meta.h), and PREFIX.mask (loss_mask.h) and
// PREFIX.weights (token_weights.h) where that names them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "data/loss_mask.h"
#include "data/token_index.h"
#include "data/token_meta.h"
#include "data/token_weights.h"

namespace gptrain {

class MpiSession;

/// A validated, memory-mapped token data set. Thread-safe for reading. With virtual tokens
/// (virtual_tokens.h) every sequence that has tokens begins with them, for every reader; the files
/// do not contain them.
class IndexedDataset {
public:
    /// Opens PREFIX.idx and PREFIX.bin, with the prefix that `token_prefix` finds. Validates every
    /// header field, length, offset and document entry against the sizes of both files; a fault is
    /// an Error (bad_input) that names the file. It does not read ids: the loader checks those that
    /// it uses. A .meta.json, .mask or .weights that is faulty or describes other token files, a
    /// missing one of the last two that the .meta.json names, and one that no .meta.json names, are
    /// also Errors (bad_input).
    ///
    /// With `ranks` all ranks call it together, in work that run_on_all runs. Each rank validates
    /// its share of the lengths, offsets and entries, and later checks those that it reads; a rank
    /// whose files differ from those of rank 0 is an Error (bad_input).
    explicit IndexedDataset(const std::filesystem::path& prefix, std::int64_t virtual_tokens = 0,
                            const MpiSession* ranks = nullptr);

    /// The prefix of its files, found by token_prefix.
    const std::filesystem::path& prefix() const { return prefix_; }
    const std::filesystem::path& bin_path() const { return index_.bin().path(); }
    /// u16 or i32.
    DType dtype() const { return index_.dtype(); }
    std::int64_t num_sequences() const { return index_.num_sequences(); }
    std::int64_t num_documents() const { return index_.num_documents(); }
    /// Of each sequence.
    std::int64_t virtual_tokens() const { return virtual_tokens_; }
    /// Number of tokens of all sequences.
    std::int64_t num_tokens() const;
    /// Number of tokens in the files, without virtual ones.
    std::int64_t num_file_tokens() const { return index_.num_tokens(); }
    /// Number of tokens of sequences [begin, end).
    std::int64_t num_tokens(std::int64_t begin, std::int64_t end) const;

    /// Number of tokens of a sequence; may be 0.
    std::int64_t sequence_length(std::int64_t sequence) const;
    /// First sequence of a document; num_sequences() if `document` is num_documents().
    std::int64_t document_begin(std::int64_t document) const {
        return index_.document_begin(document);
    }

    /// Writes tokens [begin, begin + count) of a sequence to `out`. A range outside the sequence is
    /// an Error (bug). With virtual tokens an id in the file below 0 is an Error (bad_input).
    void read(std::int64_t sequence, std::int64_t begin, std::int64_t count,
              std::int32_t* out) const;

    /// How the files were made; nothing if there is no .meta.json.
    const std::optional<TokenMeta>& meta() const { return meta_; }
    /// True if there is a loss mask. Without one every token is learned. Virtual tokens never are.
    bool masked() const { return mask_.has_value(); }
    /// Writes 1 for each learned token from `begin` of a sequence on, 0 for each other.
    void read_learned(std::int64_t sequence, std::int64_t begin, std::span<std::uint8_t> out) const;
    /// True if some learned tokens have a weight below 1.
    bool weighted() const { return weights_.has_value(); }
    /// The number of these.
    std::int64_t weighted_tokens() const { return weights_ ? weights_->tokens() : 0; }
    /// Writes the weight of each token: 0 if it is not learned, else above 0 and at most 1.
    void read_weights(std::int64_t sequence, std::int64_t begin, std::span<float> out) const;
    /// The learned tokens of sequences [begin, end).
    std::int64_t learned_tokens(std::int64_t begin, std::int64_t end) const;

    /// A cheap identity of the contents: "idx-bytes.crc-bin-bytes.crc", with the CRC-32C of the
    /// whole .idx and of .bin: all of it up to 1 MiB, else 256 blocks of 4 KiB spread evenly over
    /// it. Data sets that differ only between those blocks look equal. A mask adds "-mask.crc",
    /// weights "-weights.crc".
    const std::string& fingerprint() const { return fingerprint_; }

private:
    /// The facts that all ranks find together by reading the files once.
    struct Facts {
        TokenIndex::Facts index;
        std::uint32_t bin_crc = 0;  ///< of the blocks that the fingerprint has
    };
    Facts check(Share share) const;
    /// The same, unless an earlier start has found the facts on this node.
    Facts check_or_recall(Share share) const;
    Facts check_together(const MpiSession& ranks) const;
    void read_meta();
    void open_mask(const MpiSession* ranks);
    void open_weights(const MpiSession* ranks);
    /// Writes 0 for virtual tokens, 1 or what the mask has for the others; the place of these in
    /// the files is returned, `out` becomes their part.
    template <class T>
    std::int64_t read_mask(std::int64_t sequence, std::int64_t begin, std::span<T>& out) const;
    /// The virtual tokens among the `count` tokens of a sequence from `begin` on.
    std::int64_t virtual_among(std::int64_t begin, std::int64_t count) const;
    void read_stored(std::int64_t sequence, std::int64_t begin, std::span<std::int32_t> out) const;
    std::string make_fingerprint(const Facts& facts) const;

    std::filesystem::path prefix_;
    TokenIndex index_;
    std::int64_t virtual_tokens_ = 0;
    std::int64_t begun_sequences_ = 0;  ///< those that have tokens
    std::optional<TokenMeta> meta_;
    std::optional<LossMask> mask_;
    std::optional<TokenWeights> weights_;
    std::string fingerprint_;
};

/// Tokens of a document, and 1 for each that is learned.
struct DocumentTokens {
    std::vector<std::int32_t> ids;
    std::vector<std::uint8_t> learned;
};

/// The first tokens of a document, at most `limit`.
DocumentTokens first_tokens(const IndexedDataset& dataset, std::int64_t document,
                            std::int64_t limit);

}  // namespace gptrain
