#include "data/loss_mask.h"

#include <bit>
#include <limits>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "data/kept_check.h"

namespace gptrain {
namespace {

constexpr SideFileKind mask_kind = {.words = "loss mask", .magic = {"GPTMASK\0", 8}};

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
    : file_(open_side_file(path, mask_kind)) {
    check_header();
    require(ranks == nullptr ? check(Share{}) : check_together(*ranks));
}

void LossMask::check_header() {
    const auto size = static_cast<std::int64_t>(file_.bytes().size());
    const auto [checksum, tokens, learned] = read_side_header(file_, mask_kind);
    if (tokens > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
        size != side_header_bytes + mask_bit_bytes(static_cast<std::int64_t>(tokens))) {
        refuse_side_file(file_, "is ", size, " bytes long, which does not match its ", tokens,
                         " tokens");
    }
    if (learned > tokens)
        refuse_side_file(file_, "declares ", learned, " learned tokens of ", tokens);
    checksum_ = checksum;
    tokens_ = static_cast<std::int64_t>(tokens);
    learned_ = static_cast<std::int64_t>(learned);
}

LossMask::Facts LossMask::check(Share share) const {
    const auto bits = file_.bytes().subspan(side_header_bytes);
    const IndexRange range = share.of(std::ssize(bits));
    const auto own =
        bits.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
    Facts facts = {
        .crc = crc32c_part(own, static_cast<std::uint64_t>(std::ssize(bits) - range.end)),
        .learned = set_bits(own)};
    if (share.first()) facts.crc ^= counts_crc(file_, bits.size());
    return facts;
}

LossMask::Facts LossMask::check_or_recall(Share share) const {
    const FoundNumbers found = check_or_recall_share("loss mask", {file_.path()}, share, [&] {
        const Facts facts = check(share);
        return FoundNumbers{facts.crc, facts.learned};
    });
    if (found.size() != 2) return check(share);
    return {.crc = static_cast<std::uint32_t>(found[0]), .learned = found[1]};
}

LossMask::Facts LossMask::check_together(const MpiSession& ranks) const {
    Facts facts;
    ranks.run_on_all([&] { facts = check_or_recall({ranks.rank(), ranks.size()}); });
    facts.crc = static_cast<std::uint32_t>(ranks.exclusive_or(facts.crc));
    facts.learned = ranks.sum(facts.learned);
    return facts;
}

void LossMask::require(const Facts& found) const {
    if (found.crc != checksum_)
        refuse_side_file(file_, "is damaged: its CRC-32C is not the one in its header");
    const bool padded =
        tokens_ % 8 != 0 && std::to_integer<unsigned>(file_.bytes().back()) >> (tokens_ % 8) != 0;
    if (padded) refuse_side_file(file_, "has bits after its last token");
    if (found.learned != learned_) {
        refuse_side_file(file_, "has ", found.learned, " learned tokens, but its header says ",
                         learned_);
    }
}

bool LossMask::bit(std::int64_t token) const {
    const auto byte = file_.bytes()[static_cast<std::size_t>(side_header_bytes + token / 8)];
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
           set_bits(file_.bytes().subspan(static_cast<std::size_t>(side_header_bytes + begin / 8),
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
    return side_checksum(tokens_, learned_, bits_crc_, static_cast<std::uint64_t>(bytes_));
}

std::array<std::byte, side_header_bytes> MaskPacker::header() const {
    return side_header(mask_kind, checksum(), tokens_, learned_);
}

}  // namespace gptrain
