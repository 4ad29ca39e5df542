#include "data/indexed_dataset.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/error.h"
#include "comm/mpi_session.h"
#include "data/kept_check.h"
#include "data/virtual_tokens.h"

namespace gptrain {
namespace {

constexpr std::size_t block_bytes = 4096;
/// The number of blocks of .bin in the fingerprint.
constexpr std::int64_t fingerprint_blocks = 256;

/// The CRC of `blocks` blocks spread evenly over the bytes, or of all bytes if there are not more.
/// All shares together, by exclusive or.
std::uint32_t sampled_crc(std::span<const std::byte> bytes, std::int64_t blocks, Share share = {}) {
    const auto count = static_cast<std::size_t>(blocks);
    if (bytes.size() <= count * block_bytes)
        return share.first() ? crc32c(bytes.data(), bytes.size()) : 0;
    std::uint32_t crc = 0;
    const std::size_t room = bytes.size() - block_bytes;
    const IndexRange range = share.of(blocks);
    for (auto i = static_cast<std::size_t>(range.begin); std::cmp_less(i, range.end); ++i) {
        // Quotient and remainder separately, to avoid overflow in the product.
        const std::size_t begin = room / (count - 1) * i + room % (count - 1) * i / (count - 1);
        crc = crc32c(bytes.data() + begin, block_bytes, crc);
    }
    const std::int64_t blocks_after = blocks - range.end;
    return crc32c_combine(crc, 0, static_cast<std::uint64_t>(blocks_after) * block_bytes);
}

/// Differs in practice between token files that differ, for a few reads.
std::string quick_fingerprint(const MappedFile& idx, const MappedFile& bin,
                              const std::filesystem::path& prefix) {
    constexpr std::int64_t blocks = 4;
    const auto of = [](const MappedFile& file) {
        return text(file.bytes().size(), ".", sampled_crc(file.bytes(), blocks));
    };
    const auto of_path = [&](const std::filesystem::path& path) {
        std::error_code unreadable;
        const bool there = std::filesystem::is_regular_file(path, unreadable);
        return there ? of(MappedFile(path)) : "";
    };
    return text(of(idx), "-", of(bin), "-", of_path(mask_path(prefix)), "-",
                of_path(weights_path(prefix)));
}

template <class T>
void widen(const std::byte* from, std::int64_t count, std::int32_t* out) {
    for (std::int64_t i = 0; i < count; ++i) {
        T id;
        std::memcpy(&id, from + i * static_cast<std::int64_t>(sizeof(T)), sizeof id);
        out[i] = id;
    }
}

}  // namespace

IndexedDataset::IndexedDataset(const std::filesystem::path& prefix, std::int64_t virtual_tokens,
                               const MpiSession* ranks)
    : prefix_(token_prefix(prefix)), index_(prefix_), virtual_tokens_(virtual_tokens) {
    const Facts facts = ranks == nullptr ? check(Share{}) : check_together(*ranks);
    begun_sequences_ = facts.index.begun_sequences;
    read_meta();
    open_mask(ranks);
    open_weights(ranks);
    fingerprint_ = make_fingerprint(facts);
}

IndexedDataset::Facts IndexedDataset::check(Share share) const {
    return {.index = index_.check(share),
            .bin_crc = sampled_crc(index_.bin().bytes(), fingerprint_blocks, share)};
}

IndexedDataset::Facts IndexedDataset::check_or_recall(Share share) const {
    const FoundNumbers found = check_or_recall_share(
        "token files", {index_.idx().path(), index_.bin().path()}, share, [&] {
            const Facts facts = check(share);
            return FoundNumbers{facts.index.crc, facts.index.begun_sequences, facts.bin_crc};
        });
    if (found.size() != 3) return check(share);
    return {.index = {.crc = static_cast<std::uint32_t>(found[0]), .begun_sequences = found[1]},
            .bin_crc = static_cast<std::uint32_t>(found[2])};
}

IndexedDataset::Facts IndexedDataset::check_together(const MpiSession& ranks) const {
    Facts facts;
    std::string own;
    ranks.run_on_all([&] {
        facts = check_or_recall({ranks.rank(), ranks.size()});
        own = quick_fingerprint(index_.idx(), index_.bin(), prefix_);
    });
    const std::string first = ranks.broadcast(own);
    ranks.run_on_all([&] {
        if (own == first) return;
        fail(ExitCode::bad_input, index_.idx().path().string(),
             ": it, its .bin, .mask or .weights differs from the file that rank 0 reads under this "
             "name; all ranks need the same data");
    });
    const std::uint64_t crcs =
        ranks.exclusive_or(std::uint64_t{facts.index.crc} << 32 | facts.bin_crc);
    facts.index.crc = static_cast<std::uint32_t>(crcs >> 32);
    facts.bin_crc = static_cast<std::uint32_t>(crcs);
    facts.index.begun_sequences = ranks.sum(facts.index.begun_sequences);
    return facts;
}

void IndexedDataset::read_meta() {
    meta_ = read_token_meta(prefix_);
    if (!meta_ || (meta_->documents == num_documents() && meta_->tokens == index_.num_tokens()))
        return;
    fail(ExitCode::bad_input, meta_path(prefix_).string(), ": describes ", meta_->documents,
         " documents and ", meta_->tokens, " tokens, but ", prefix_.string(), ".idx has ",
         num_documents(), " and ", index_.num_tokens(),
         "; it belongs to other token files: remove it, or regenerate them");
}

void IndexedDataset::open_mask(const MpiSession* ranks) {
    const std::filesystem::path path = mask_path(prefix_);
    const std::string meta = meta_path(prefix_).string();
    if (!meta_ || !meta_->mask) {
        std::error_code unreadable;
        if (!std::filesystem::exists(path, unreadable)) return;
        fail(ExitCode::bad_input, path.string(), ": no ", meta,
             " names this loss mask; restore that file, or remove the mask to learn every token");
    }
    mask_.emplace(path, ranks);
    const bool own = mask_->checksum() == meta_->mask->crc32c &&
                     mask_->learned() == meta_->mask->learned &&
                     mask_->tokens() == index_.num_tokens();
    if (own) return;
    fail(ExitCode::bad_input, path.string(), ": is the loss mask of other token files (CRC-32C ",
         mask_->checksum(), ", but ", meta, " names ", meta_->mask->crc32c,
         "); restore its own, or regenerate the token files with gpt-preprocess chat");
}

void IndexedDataset::open_weights(const MpiSession* ranks) {
    const std::filesystem::path path = weights_path(prefix_);
    const std::string meta = meta_path(prefix_).string();
    if (!meta_ || !meta_->weights) {
        std::error_code unreadable;
        if (!std::filesystem::exists(path, unreadable)) return;
        fail(ExitCode::bad_input, path.string(), ": no ", meta,
             " names these weights; restore that file, or remove the weights to learn all messages "
             "alike");
    }
    GPTRAIN_CHECK(mask_);  // parse_token_meta
    weights_.emplace(path, *mask_, ranks);
    if (weights_->checksum() == meta_->weights->crc32c && weights_->runs() == meta_->weights->runs)
        return;
    fail(ExitCode::bad_input, path.string(), ": has the weights of other token files (CRC-32C ",
         weights_->checksum(), ", but ", meta, " names ", meta_->weights->crc32c,
         "); restore its own, or regenerate the token files with gpt-preprocess chat");
}

std::string IndexedDataset::make_fingerprint(const Facts& facts) const {
    const std::string mask = mask_ ? text("-mask.", mask_->checksum()) : "";
    const std::string weights = weights_ ? text("-weights.", weights_->checksum()) : "";
    return text(index_.idx().bytes().size(), ".", facts.index.crc, "-", index_.bin().bytes().size(),
                ".", facts.bin_crc, mask, weights);
}

std::int64_t IndexedDataset::sequence_length(std::int64_t sequence) const {
    const std::int64_t stored = index_.length(sequence);
    return stored == 0 ? 0 : virtual_tokens_ + stored;
}

std::int64_t IndexedDataset::num_tokens() const {
    return index_.num_tokens() + begun_sequences_ * virtual_tokens_;
}

std::int64_t IndexedDataset::num_tokens(std::int64_t begin, std::int64_t end) const {
    if (begin == 0 && end == num_sequences()) return num_tokens();
    if (virtual_tokens_ == 0) return index_.first_token(end) - index_.first_token(begin);
    std::int64_t count = 0;
    for (std::int64_t i = begin; i < end; ++i)
        count += sequence_length(i);
    return count;
}

std::int64_t IndexedDataset::virtual_among(std::int64_t begin, std::int64_t count) const {
    return std::clamp<std::int64_t>(virtual_tokens_ - begin, 0, count);
}

template <class T>
std::int64_t IndexedDataset::read_mask(std::int64_t sequence, std::int64_t begin,
                                       std::span<T>& out) const {
    const std::int64_t length = sequence_length(sequence);
    GPTRAIN_CHECK(begin >= 0 && begin <= length && std::ssize(out) <= length - begin, begin);
    const std::int64_t before = virtual_among(begin, std::ssize(out));
    std::fill_n(out.begin(), before, T{0});
    out = out.subspan(static_cast<std::size_t>(before));
    const std::int64_t first = index_.first_token(sequence) + begin + before - virtual_tokens_;
    if (mask_ && !out.empty()) {
        mask_->read(first, out);
    } else {
        std::fill(out.begin(), out.end(), T{1});
    }
    return first;
}

void IndexedDataset::read_learned(std::int64_t sequence, std::int64_t begin,
                                  std::span<std::uint8_t> out) const {
    read_mask(sequence, begin, out);
}

void IndexedDataset::read_weights(std::int64_t sequence, std::int64_t begin,
                                  std::span<float> out) const {
    const std::int64_t first = read_mask(sequence, begin, out);
    if (weights_ && !out.empty()) weights_->apply(first, out);
}

std::int64_t IndexedDataset::learned_tokens(std::int64_t begin, std::int64_t end) const {
    const std::int64_t first = index_.first_token(begin);
    const std::int64_t last = index_.first_token(end);
    return mask_ ? mask_->count(first, last) : last - first;
}

void IndexedDataset::read(std::int64_t sequence, std::int64_t begin, std::int64_t count,
                          std::int32_t* out) const {
    const std::int64_t length = sequence_length(sequence);
    GPTRAIN_CHECK(begin >= 0 && count >= 0 && begin <= length && count <= length - begin, "tokens ",
                  begin, " + ", count, " of ", length);
    const std::int64_t before = virtual_among(begin, count);
    const std::span<std::int32_t> ids(out, static_cast<std::size_t>(count));
    fill_virtual_ids(ids.first(static_cast<std::size_t>(before)), begin, virtual_tokens_);
    read_stored(sequence, begin + before - virtual_tokens_,
                ids.subspan(static_cast<std::size_t>(before)));
}

void IndexedDataset::read_stored(std::int64_t sequence, std::int64_t begin,
                                 std::span<std::int32_t> out) const {
    if (out.empty()) return;
    const std::byte* from =
        index_.bin().bytes().data() + (index_.first_token(sequence) + begin) * size_of(dtype());
    if (dtype() == DType::u16) return widen<std::uint16_t>(from, std::ssize(out), out.data());
    widen<std::int32_t>(from, std::ssize(out), out.data());
    if (virtual_tokens_ == 0) return;
    const auto negative = std::find_if(out.begin(), out.end(), [](auto id) { return id < 0; });
    if (negative == out.end()) return;
    fail(ExitCode::bad_input, bin_path().string(), ": sequence ", sequence, ", token ",
         begin + (negative - out.begin()), ": token id ", *negative, " is below 0");
}

DocumentTokens first_tokens(const IndexedDataset& dataset, std::int64_t document,
                            std::int64_t limit) {
    DocumentTokens tokens;
    const std::int64_t end = dataset.document_begin(document + 1);
    for (std::int64_t i = dataset.document_begin(document);
         i < end && std::ssize(tokens.ids) < limit; ++i) {
        const std::int64_t count =
            std::min(dataset.sequence_length(i), limit - std::ssize(tokens.ids));
        const std::size_t begin = tokens.ids.size();
        tokens.ids.resize(begin + static_cast<std::size_t>(count));
        tokens.learned.resize(tokens.ids.size());
        dataset.read(i, 0, count, tokens.ids.data() + begin);
        dataset.read_learned(i, 0, std::span(tokens.learned).subspan(begin));
    }
    return tokens;
}

}  // namespace gptrain
