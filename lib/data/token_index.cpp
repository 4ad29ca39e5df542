#include "data/token_index.h"

#include <cstring>
#include <limits>
#include <string_view>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/error.h"

namespace gptrain {
namespace {

constexpr std::string_view magic("MMIDIDX\0\0", 9);
constexpr std::int64_t header_bytes = 34;
constexpr std::int64_t length_bytes = 4;
constexpr std::int64_t offset_bytes = 8;
constexpr std::int64_t document_bytes = 8;

[[noreturn]] void refuse(const std::filesystem::path& file, const auto&... parts) {
    fail(ExitCode::bad_input, file.string(), ": ", parts...);
}

std::span<const std::byte> part_of(std::span<const std::byte> bytes, std::int64_t begin,
                                   std::int64_t size) {
    return bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
}

bool has_file(const std::filesystem::path& prefix, const char* ending) {
    std::error_code ignored;
    return std::filesystem::exists(prefix.string() + ending, ignored);
}

/// Error (bad_input) if `prefix` is one of the files of a data set.
void refuse_file_name(const std::filesystem::path& prefix) {
    const std::filesystem::path shorter = std::filesystem::path(prefix).replace_extension();
    for (const char* ending : {".bin", ".idx"}) {
        if (prefix.extension() == ending && has_file(shorter, ".bin") && has_file(shorter, ".idx"))
            refuse(prefix, "give the prefix without ", ending, ": ", shorter.string());
    }
}

std::filesystem::file_type require_part(const std::filesystem::path& prefix, const char* ending) {
    if (!has_file(prefix, ending)) refuse_file_name(prefix);
    const std::string advice = text("; a token data set is ", prefix.string(), ".bin and ",
                                    prefix.string(), ".idx, made by gpt-preprocess");
    return require_path(prefix.string() + ending, ExitCode::bad_input, "file", advice);
}

/// Maps a file, after checking that opening it cannot block or fail obscurely.
MappedFile open_part(const std::filesystem::path& prefix, const char* ending) {
    const std::filesystem::path path = prefix.string() + ending;
    if (require_part(prefix, ending) != std::filesystem::file_type::regular)
        refuse(path, "not a regular file");
    return MappedFile(path);
}

}  // namespace

bool has_token_file(const std::filesystem::path& prefix) {
    return has_file(prefix, ".idx") || has_file(prefix, ".bin");
}

std::filesystem::path token_prefix(const std::filesystem::path& name) {
    constexpr std::string_view ending = "_text_document";
    const std::string word = name.string();
    const std::filesystem::path other =
        word.ends_with(ending) ? word.substr(0, word.size() - ending.size()) : text(word, ending);
    return !has_token_file(name) && has_token_file(other) ? other : name;
}

void require_token_files(const std::filesystem::path& prefix) {
    for (const char* ending : {".idx", ".bin"})
        require_part(token_prefix(prefix), ending);
}

TokenIndex::TokenIndex(const std::filesystem::path& prefix)
    : idx_(open_part(prefix, ".idx")), bin_(open_part(prefix, ".bin")) {
    check_header();
}

void TokenIndex::check_header() {
    const auto file = idx_.bytes();
    const std::int64_t bytes = std::ssize(file);
    if (bytes < header_bytes) {
        refuse(idx_.path(), "is ", bytes, " bytes long, but an index has at least ", header_bytes);
    }
    if (std::memcmp(file.data(), magic.data(), magic.size()) != 0) {
        refuse(idx_.path(), "does not start with MMIDIDX: not an index of token sequences");
    }
    const auto version = value_at<std::uint64_t>(file, 9);
    if (version != 1) refuse(idx_.path(), "has version ", version, "; only version 1 is supported");
    const auto code = value_at<std::uint8_t>(file, 17);
    if (code != 4 && code != 8) {
        refuse(idx_.path(), "has type code ", code, "; token ids use 4 (int32) or 8 (uint16)");
    }
    dtype_ = code == 4 ? DType::i32 : DType::u16;

    const auto sequences = value_at<std::uint64_t>(file, 18);
    const auto entries = value_at<std::uint64_t>(file, 26);
    constexpr auto per_sequence = static_cast<std::uint64_t>(length_bytes + offset_bytes);
    constexpr auto per_entry = static_cast<std::uint64_t>(document_bytes);
    const auto room = static_cast<std::uint64_t>(bytes - header_bytes);
    if (sequences > room / per_sequence || entries > room / per_entry ||
        room != per_sequence * sequences + per_entry * entries) {
        refuse(idx_.path(), "declares ", sequences, " sequences and ", entries,
               " document entries, which does not match its size of ", bytes, " bytes");
    }
    if (sequences > std::numeric_limits<std::int32_t>::max()) {
        refuse(idx_.path(), "has ", sequences, " sequences; the limit is 2^31 - 1");
    }
    if (entries == 0) refuse(idx_.path(), "has an empty document index");
    num_sequences_ = static_cast<std::int64_t>(sequences);
    num_documents_ = static_cast<std::int64_t>(entries) - 1;
}

std::span<const std::byte> TokenIndex::lengths() const {
    return part_of(idx_.bytes(), header_bytes, length_bytes * num_sequences_);
}
std::span<const std::byte> TokenIndex::offsets() const {
    return part_of(idx_.bytes(), header_bytes + length_bytes * num_sequences_,
                   offset_bytes * num_sequences_);
}
std::span<const std::byte> TokenIndex::documents() const {
    return idx_.bytes().last(static_cast<std::size_t>(document_bytes * (num_documents_ + 1)));
}

std::int64_t TokenIndex::raw_length(std::int64_t sequence) const {
    return value_at<std::int32_t>(lengths(), length_bytes * sequence);
}
std::int64_t TokenIndex::raw_offset(std::int64_t sequence) const {
    return value_at<std::int64_t>(offsets(), offset_bytes * sequence);
}
std::int64_t TokenIndex::raw_document(std::int64_t entry) const {
    return value_at<std::int64_t>(documents(), document_bytes * entry);
}

std::int64_t TokenIndex::length(std::int64_t sequence) const {
    GPTRAIN_CHECK(sequence >= 0 && sequence < num_sequences_, sequence);
    const std::int64_t length = raw_length(sequence);
    if (length < 0 || length > num_tokens() - first_token(sequence))
        refuse(idx_.path(), "sequence ", sequence, " has the length ", length);
    return length;
}

std::int64_t TokenIndex::first_token(std::int64_t sequence) const {
    GPTRAIN_CHECK(sequence >= 0 && sequence <= num_sequences_, sequence);
    if (sequence == num_sequences_) return num_tokens();
    const std::int64_t offset = raw_offset(sequence);
    if (offset < 0 || offset > bin_bytes() || offset % size_of(dtype_) != 0)
        refuse(idx_.path(), "sequence ", sequence, " starts at byte ", offset);
    return offset / size_of(dtype_);
}

std::int64_t TokenIndex::document_begin(std::int64_t document) const {
    GPTRAIN_CHECK(document >= 0 && document <= num_documents_, document);
    const std::int64_t begin = raw_document(document);
    if (begin < 0 || begin > num_sequences_)
        refuse(idx_.path(), "document ", document, " starts at sequence ", begin);
    return begin;
}

TokenIndex::Facts TokenIndex::check(Share share) const {
    const std::int64_t begun = check_sequences(share.of(num_sequences_), share.last());
    check_documents(share.of(num_documents_ + 1), share.last());
    return {.crc = crc(share), .begun_sequences = begun};
}

std::int64_t TokenIndex::previous_end(std::int64_t sequence) const {
    if (sequence == 0) return 0;
    const std::int64_t bytes = raw_length(sequence - 1) * size_of(dtype_);
    std::int64_t end = 0;
    if (__builtin_add_overflow(raw_offset(sequence - 1), bytes, &end))
        refuse(idx_.path(), "sequence ", sequence - 1, " starts at byte ",
               raw_offset(sequence - 1));
    return end;
}

std::int64_t TokenIndex::check_sequences(IndexRange range, bool last) const {
    const std::int64_t width = size_of(dtype_);
    std::int64_t begun = 0;
    std::int64_t end = previous_end(range.begin);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
        const std::int64_t length = raw_length(i);
        const std::int64_t offset = raw_offset(i);
        if (length < 0) refuse(idx_.path(), "sequence ", i, " has the length ", length);
        if (offset != end) {
            refuse(idx_.path(), "sequence ", i, " starts at byte ", offset,
                   ", but the previous one ends at ", end);
        }
        if (end < 0 || end > bin_bytes()) {
            refuse(idx_.path(), "sequence ", i, " starts at byte ", offset, ", but ",
                   bin_.path().string(), " has ", bin_bytes());
        }
        if (length > 0) ++begun;
        // Cannot overflow: the previous end is within the file, and a length has 31 bits.
        end += length * width;
        if (end > bin_bytes()) {
            refuse(bin_.path(), "is ", bin_bytes(), " bytes long, but sequence ", i, " of ",
                   idx_.path().string(), " ends at ", end);
        }
    }
    if (last && end != bin_bytes()) {
        refuse(bin_.path(), "is ", bin_bytes(), " bytes long, but ", idx_.path().string(),
               " describes ", end);
    }
    return begun;
}

void TokenIndex::check_documents(IndexRange range, bool last) const {
    std::int64_t before = range.begin == 0 ? 0 : raw_document(range.begin - 1);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
        const std::int64_t entry = raw_document(i);
        if (i == 0 && entry != 0)
            refuse(idx_.path(), "its first document starts at sequence ", entry);
        if (entry < before) {
            refuse(idx_.path(), "document entry ", i, " is ", entry, ", below the one before it (",
                   before, ")");
        }
        before = entry;
    }
    if (last && before != num_sequences_) {
        refuse(idx_.path(), "its documents end at sequence ", before, " of ", num_sequences_);
    }
}

std::uint32_t TokenIndex::crc(Share share) const {
    const auto file = idx_.bytes();
    const auto part_crc = [&](std::span<const std::byte> part) {
        const auto end = part.data() + part.size() - file.data();
        return crc32c_part(part, file.size() - static_cast<std::size_t>(end));
    };
    const auto share_crc = [&](std::span<const std::byte> array, std::int64_t width) {
        const IndexRange range = share.of(std::ssize(array) / width);
        return part_crc(part_of(array, width * range.begin, width * range.size()));
    };
    // The same entries that the checks read.
    const std::uint32_t arrays = share_crc(lengths(), length_bytes) ^
                                 share_crc(offsets(), offset_bytes) ^
                                 share_crc(documents(), document_bytes);
    return share.first() ? arrays ^ part_crc(file.first(header_bytes)) : arrays;
}

}  // namespace gptrain
