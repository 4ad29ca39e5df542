#include "data/indexed_dataset.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>

#include "base/crc32c.h"
#include "base/error.h"
#include "data/virtual_tokens.h"

namespace gptrain {
namespace {

constexpr std::string_view magic("MMIDIDX\0\0", 9);
constexpr std::int64_t header_bytes = 34;

template <class T>
T load(const std::byte* address) {
    T value;
    std::memcpy(&value, address, sizeof value);
    return value;
}

template <class T>
T load_at(const std::byte* array, std::int64_t index) {
    return load<T>(array + index * static_cast<std::int64_t>(sizeof(T)));
}

template <class... Parts>
[[noreturn]] void refuse(const MappedFile& file, const Parts&... parts) {
    fail(ExitCode::bad_input, file.path().string(), ": ", parts...);
}

std::filesystem::path part_of(const std::filesystem::path& prefix, const char* ending) {
    return prefix.string() + ending;
}

std::filesystem::file_type require_part(const std::filesystem::path& prefix, const char* ending) {
    const std::string advice = text("; a token data set is ", prefix.string(), ".bin and ",
                                    prefix.string(), ".idx, made by gpt-preprocess");
    return require_path(part_of(prefix, ending), ExitCode::bad_input, "file", advice);
}

/// Maps a file, after checking that opening it cannot block or fail obscurely.
MappedFile open_part(const std::filesystem::path& prefix, const char* ending) {
    const std::filesystem::path path = part_of(prefix, ending);
    if (require_part(prefix, ending) != std::filesystem::file_type::regular)
        fail(ExitCode::bad_input, path.string(), ": not a regular file");
    return MappedFile(path);
}

std::int64_t bytes_of(const MappedFile& file) {
    return static_cast<std::int64_t>(file.bytes().size());
}

std::uint32_t sampled_crc(std::span<const std::byte> bytes) {
    constexpr std::size_t whole = 1 << 20;
    constexpr std::size_t block = 4096;
    constexpr std::size_t blocks = whole / block;
    if (bytes.size() <= whole) return crc32c(bytes.data(), bytes.size());
    std::uint32_t crc = 0;
    const std::size_t room = bytes.size() - block;
    for (std::size_t i = 0; i < blocks; ++i) {
        // Quotient and remainder separately, to avoid overflow in the product.
        const std::size_t begin = room / (blocks - 1) * i + room % (blocks - 1) * i / (blocks - 1);
        crc = crc32c(bytes.data() + begin, block, crc);
    }
    return crc;
}

template <class T>
void widen(const std::byte* from, std::int64_t count, std::int32_t* out) {
    for (std::int64_t i = 0; i < count; ++i)
        out[i] = load_at<T>(from, i);
}

}  // namespace

void require_token_files(const std::filesystem::path& prefix) {
    for (const char* ending : {".idx", ".bin"})
        require_part(prefix, ending);
}

IndexedDataset::IndexedDataset(const std::filesystem::path& prefix, std::int64_t virtual_tokens)
    : prefix_(prefix),
      idx_(open_part(prefix, ".idx")),
      bin_(open_part(prefix, ".bin")),
      virtual_tokens_(virtual_tokens) {
    check_header();
    check_sequences();
    check_documents();
    read_meta();
    open_mask();
    fingerprint_ = make_fingerprint();
}

const std::byte* IndexedDataset::lengths() const {
    return idx_.bytes().data() + header_bytes;
}
const std::byte* IndexedDataset::offsets() const {
    return lengths() + 4 * num_sequences_;
}
const std::byte* IndexedDataset::documents() const {
    return offsets() + 8 * num_sequences_;
}

void IndexedDataset::check_header() {
    const std::byte* start = idx_.bytes().data();
    const std::int64_t bytes = bytes_of(idx_);
    if (bytes < header_bytes) {
        refuse(idx_, "is ", bytes, " bytes long, but an index has at least ", header_bytes);
    }
    if (std::memcmp(start, magic.data(), magic.size()) != 0) {
        refuse(idx_, "does not start with MMIDIDX: not an index of token sequences");
    }
    const auto version = load<std::uint64_t>(start + 9);
    if (version != 1) refuse(idx_, "has version ", version, "; only version 1 is supported");
    const auto code = load<std::uint8_t>(start + 17);
    if (code != 4 && code != 8) {
        refuse(idx_, "has type code ", code, "; token ids use 4 (int32) or 8 (uint16)");
    }
    dtype_ = code == 4 ? DType::i32 : DType::u16;

    const auto sequences = load<std::uint64_t>(start + 18);
    const auto entries = load<std::uint64_t>(start + 26);
    const auto room = static_cast<std::uint64_t>(bytes - header_bytes);
    if (sequences > room / 12 || entries > room / 8 || room != 12 * sequences + 8 * entries) {
        refuse(idx_, "declares ", sequences, " sequences and ", entries,
               " document entries, which does not match its size of ", bytes, " bytes");
    }
    if (sequences > std::numeric_limits<std::int32_t>::max()) {
        refuse(idx_, "has ", sequences, " sequences; the limit is 2^31 - 1");
    }
    if (entries == 0) refuse(idx_, "has an empty document index");
    num_sequences_ = static_cast<std::int64_t>(sequences);
    num_documents_ = static_cast<std::int64_t>(entries) - 1;
}

void IndexedDataset::check_sequences() {
    const std::int64_t width = size_of(dtype_);
    std::int64_t end = 0;
    for (std::int64_t i = 0; i < num_sequences_; ++i) {
        const std::int64_t length = stored_length(i);
        const auto offset = load_at<std::int64_t>(offsets(), i);
        if (length < 0) refuse(idx_, "sequence ", i, " has the length ", length);
        if (offset != end) {
            refuse(idx_, "sequence ", i, " starts at byte ", offset,
                   ", but the previous one ends at ", end);
        }
        if (length > 0) ++begun_sequences_;
        // Cannot overflow: the previous end was within the file, and a length has 31 bits.
        end += length * width;
        if (end > bytes_of(bin_)) {
            refuse(bin_, "is ", bytes_of(bin_), " bytes long, but sequence ", i, " of ",
                   idx_.path().string(), " ends at ", end);
        }
    }
    if (end != bytes_of(bin_)) {
        refuse(bin_, "is ", bytes_of(bin_), " bytes long, but ", idx_.path().string(),
               " describes ", end);
    }
    stored_tokens_ = end / width;
}

void IndexedDataset::check_documents() const {
    std::int64_t before = 0;
    for (std::int64_t i = 0; i <= num_documents_; ++i) {
        const auto entry = load_at<std::int64_t>(documents(), i);
        if (i == 0 && entry != 0) refuse(idx_, "its first document starts at sequence ", entry);
        if (entry < before) {
            refuse(idx_, "document entry ", i, " is ", entry, ", below the one before it (", before,
                   ")");
        }
        before = entry;
    }
    if (before != num_sequences_) {
        refuse(idx_, "its documents end at sequence ", before, " of ", num_sequences_);
    }
}

void IndexedDataset::read_meta() {
    meta_ = read_token_meta(prefix_);
    if (!meta_ || (meta_->documents == num_documents_ && meta_->tokens == stored_tokens_)) return;
    fail(ExitCode::bad_input, meta_path(prefix_).string(), ": describes ", meta_->documents,
         " documents and ", meta_->tokens, " tokens, but ", prefix_.string(), ".idx has ",
         num_documents_, " and ", stored_tokens_,
         "; it belongs to other token files: remove it, or regenerate them");
}

void IndexedDataset::open_mask() {
    const std::filesystem::path path = mask_path(prefix_);
    const std::string meta = meta_path(prefix_).string();
    if (!meta_ || !meta_->mask) {
        std::error_code unreadable;
        if (!std::filesystem::exists(path, unreadable)) return;
        fail(ExitCode::bad_input, path.string(), ": no ", meta,
             " names this loss mask; restore that file, or remove the mask to learn every token");
    }
    mask_.emplace(path);
    const bool own = mask_->checksum() == meta_->mask->crc32c &&
                     mask_->learned() == meta_->mask->learned && mask_->tokens() == stored_tokens_;
    if (own) return;
    fail(ExitCode::bad_input, path.string(), ": is the loss mask of other token files (CRC-32C ",
         mask_->checksum(), ", but ", meta, " names ", meta_->mask->crc32c,
         "); restore its own, or make the token files anew with gpt-preprocess chat");
}

std::string IndexedDataset::make_fingerprint() const {
    const std::uint32_t idx_crc = crc32c(idx_.bytes().data(), idx_.bytes().size());
    const std::string mask = mask_ ? text("-mask.", mask_->checksum()) : "";
    return text(bytes_of(idx_), ".", idx_crc, "-", bytes_of(bin_), ".", sampled_crc(bin_.bytes()),
                mask);
}

std::int64_t IndexedDataset::stored_length(std::int64_t sequence) const {
    GPTRAIN_CHECK(sequence >= 0 && sequence < num_sequences_, sequence);
    return load_at<std::int32_t>(lengths(), sequence);
}

std::int64_t IndexedDataset::sequence_length(std::int64_t sequence) const {
    const std::int64_t stored = stored_length(sequence);
    return stored == 0 ? 0 : virtual_tokens_ + stored;
}

std::int64_t IndexedDataset::num_tokens() const {
    return stored_tokens_ + begun_sequences_ * virtual_tokens_;
}

std::int64_t IndexedDataset::virtual_among(std::int64_t begin, std::int64_t count) const {
    return std::clamp<std::int64_t>(virtual_tokens_ - begin, 0, count);
}

std::int64_t IndexedDataset::document_begin(std::int64_t document) const {
    GPTRAIN_CHECK(document >= 0 && document <= num_documents_, document);
    return load_at<std::int64_t>(documents(), document);
}

std::int64_t IndexedDataset::first_token(std::int64_t sequence) const {
    GPTRAIN_CHECK(sequence >= 0 && sequence <= num_sequences_, sequence);
    if (sequence == num_sequences_) return stored_tokens_;
    return load_at<std::int64_t>(offsets(), sequence) / size_of(dtype_);
}

void IndexedDataset::read_learned(std::int64_t sequence, std::int64_t begin,
                                  std::span<std::uint8_t> out) const {
    const std::int64_t length = sequence_length(sequence);
    GPTRAIN_CHECK(begin >= 0 && begin <= length && std::ssize(out) <= length - begin, begin);
    const std::int64_t before = virtual_among(begin, std::ssize(out));
    const auto stored = out.subspan(static_cast<std::size_t>(before));
    std::fill_n(out.begin(), before, std::uint8_t{0});
    if (mask_ && !stored.empty()) {
        mask_->read(first_token(sequence) + begin + before - virtual_tokens_, stored);
    } else {
        std::fill(stored.begin(), stored.end(), std::uint8_t{1});
    }
}

std::int64_t IndexedDataset::learned_tokens(std::int64_t begin, std::int64_t end) const {
    const std::int64_t first = first_token(begin);
    const std::int64_t last = first_token(end);
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
        bin_.bytes().data() + load_at<std::int64_t>(offsets(), sequence) + begin * size_of(dtype_);
    if (dtype_ == DType::u16) return widen<std::uint16_t>(from, std::ssize(out), out.data());
    widen<std::int32_t>(from, std::ssize(out), out.data());
    if (virtual_tokens_ == 0) return;
    const auto negative = std::find_if(out.begin(), out.end(), [](auto id) { return id < 0; });
    if (negative == out.end()) return;
    refuse(bin_, "sequence ", sequence, ", token ", begin + (negative - out.begin()), ": token id ",
           *negative, " is below 0");
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
