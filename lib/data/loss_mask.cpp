#include "data/loss_mask.h"

#include <bit>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/error.h"

namespace gptrain {
namespace {

constexpr std::string_view mask_magic("GPTMASK\0", 8);
constexpr std::uint32_t mask_version = 1;
constexpr std::size_t counted_from = 16;  // of the file, by the checksum

[[noreturn]] void refuse_mask(const MappedFile& file, const auto&... parts) {
    fail(ExitCode::bad_input, file.path().string(), ": ", parts...,
         "; regenerate the token files with gpt-preprocess chat");
}

MappedFile open_mask(const std::filesystem::path& path) {
    const auto type = require_path(path, ExitCode::bad_input, "loss mask",
                                   "; its .meta.json says that these token files have one");
    if (type != std::filesystem::file_type::regular)
        fail(ExitCode::bad_input, path.string(), ": not a regular file");
    return MappedFile(path);
}

std::int64_t set_bits(std::span<const std::byte> bytes) {
    std::int64_t count = 0;
    for (const std::byte byte : bytes)
        count += std::popcount(std::to_integer<std::uint8_t>(byte));
    return count;
}

}  // namespace

std::filesystem::path mask_path(const std::filesystem::path& prefix) {
    return prefix.string() + ".mask";
}

LossMask::LossMask(const std::filesystem::path& path, const MpiSession* ranks)
    : file_(open_mask(path)) {
    check_header();
    require(ranks == nullptr ? check(Share{}) : check_together(*ranks));
}

void LossMask::check_header() {
    const auto bytes = file_.bytes();
    const auto size = static_cast<std::int64_t>(bytes.size());
    if (size < mask_header_bytes) {
        refuse_mask(file_, "is ", size, " bytes long, but a loss mask has at least ",
                    mask_header_bytes);
    }
    if (std::memcmp(bytes.data(), mask_magic.data(), mask_magic.size()) != 0)
        refuse_mask(file_, "does not start with GPTMASK: not a loss mask");
    const auto found = value_at<std::uint32_t>(bytes, 8);
    if (found != mask_version) {
        fail(ExitCode::bad_input, file_.path().string(), ": has version ", found,
             "; this program reads version ", mask_version, ": use a newer program");
    }
    checksum_ = value_at<std::uint32_t>(bytes, 12);
    const auto tokens = value_at<std::uint64_t>(bytes, 16);
    const auto learned = value_at<std::uint64_t>(bytes, 24);
    if (tokens > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
        size != mask_header_bytes + mask_bit_bytes(static_cast<std::int64_t>(tokens))) {
        refuse_mask(file_, "is ", size, " bytes long, which does not match its ", tokens,
                    " tokens");
    }
    if (learned > tokens) refuse_mask(file_, "declares ", learned, " learned tokens of ", tokens);
    tokens_ = static_cast<std::int64_t>(tokens);
    learned_ = static_cast<std::int64_t>(learned);
}

LossMask::Facts LossMask::check(Share share) const {
    const auto bits = file_.bytes().subspan(mask_header_bytes);
    const IndexRange range = share.of(std::ssize(bits));
    const auto own =
        bits.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
    Facts facts = {
        .crc = crc32c_part(own, static_cast<std::uint64_t>(std::ssize(bits) - range.end)),
        .learned = set_bits(own)};
    const auto counts = file_.bytes().subspan(
        counted_from, static_cast<std::size_t>(mask_header_bytes) - counted_from);
    if (share.first()) facts.crc ^= crc32c_part(counts, bits.size());
    return facts;
}

LossMask::Facts LossMask::check_together(const MpiSession& ranks) const {
    Facts facts;
    ranks.run_on_all([&] { facts = check({ranks.rank(), ranks.size()}); });
    facts.crc = static_cast<std::uint32_t>(ranks.exclusive_or(facts.crc));
    facts.learned = ranks.sum(facts.learned);
    return facts;
}

void LossMask::require(const Facts& found) const {
    if (found.crc != checksum_)
        refuse_mask(file_, "is damaged: its CRC-32C is not the one in its header");
    const bool padded =
        tokens_ % 8 != 0 && std::to_integer<unsigned>(file_.bytes().back()) >> (tokens_ % 8) != 0;
    if (padded) refuse_mask(file_, "has bits after its last token");
    if (found.learned != learned_) {
        refuse_mask(file_, "has ", found.learned, " learned tokens, but its header says ",
                    learned_);
    }
}

bool LossMask::bit(std::int64_t token) const {
    const auto byte = file_.bytes()[static_cast<std::size_t>(mask_header_bytes + token / 8)];
    return (std::to_integer<unsigned>(byte) >> (token % 8) & 1U) != 0;
}

template <class T>
void LossMask::read_as(std::int64_t begin, std::span<T> out) const {
    GPTRAIN_CHECK(begin >= 0 && begin <= tokens_ && std::ssize(out) <= tokens_ - begin, begin);
    for (T& learned : out)
        learned = bit(begin++) ? T{1} : T{0};
}

void LossMask::read(std::int64_t begin, std::span<std::uint8_t> out) const {
    read_as(begin, out);
}

void LossMask::read(std::int64_t begin, std::span<float> out) const {
    read_as(begin, out);
}

std::int64_t LossMask::count(std::int64_t begin, std::int64_t end) const {
    GPTRAIN_CHECK(begin >= 0 && begin <= end && end <= tokens_, begin, " to ", end);
    std::int64_t count = 0;
    for (; begin < end && begin % 8 != 0; ++begin)
        count += bit(begin) ? 1 : 0;
    for (; begin < end && end % 8 != 0; --end)
        count += bit(end - 1) ? 1 : 0;
    if (begin == end) return count;
    return count +
           set_bits(file_.bytes().subspan(static_cast<std::size_t>(mask_header_bytes + begin / 8),
                                          static_cast<std::size_t>((end - begin) / 8)));
}

void MaskPacker::take(std::byte bits, std::vector<std::byte>& out) {
    bits_crc_ = crc32c(&bits, 1, bits_crc_);
    ++bytes_;
    out.push_back(bits);
}

void MaskPacker::add(std::span<const std::uint8_t> learned, std::vector<std::byte>& out) {
    for (const std::uint8_t one : learned) {
        if (one != 0) {
            open_byte_ |= static_cast<std::uint8_t>(1U << (tokens_ % 8));
            ++learned_;
        }
        if (++tokens_ % 8 == 0) take(std::byte{std::exchange(open_byte_, std::uint8_t{0})}, out);
    }
}

void MaskPacker::finish(std::vector<std::byte>& out) {
    if (tokens_ % 8 != 0) take(std::byte{std::exchange(open_byte_, std::uint8_t{0})}, out);
}

std::uint32_t MaskPacker::checksum() const {
    GPTRAIN_CHECK(bytes_ == mask_bit_bytes(tokens_));
    const std::array<std::int64_t, 2> counts = {tokens_, learned_};
    return crc32c_combine(crc32c(counts.data(), sizeof counts), bits_crc_,
                          static_cast<std::uint64_t>(bytes_));
}

std::array<std::byte, mask_header_bytes> MaskPacker::header() const {
    std::array<std::byte, mask_header_bytes> header{};
    const auto put = [&](std::size_t at, const auto& value) {
        std::memcpy(header.data() + at, &value, sizeof value);
    };
    std::memcpy(header.data(), mask_magic.data(), mask_magic.size());
    put(8, mask_version);
    put(12, checksum());
    put(16, tokens_);
    put(24, learned_);
    return header;
}

}  // namespace gptrain
