#include "parquet/delta_decoder.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/varint.h"

namespace gptrain {
namespace {

[[noreturn]] void refuse_delta(const auto&... parts) {
    fail(ExitCode::bad_input, "damaged delta encoding: ", parts...);
}

/// Bits [bit, bit + width) of the bytes, the lowest first; width is at most 64.
std::uint64_t bits_at(std::span<const std::byte> bytes, std::uint64_t bit, unsigned width) {
    if (width == 0) return 0;
    const std::size_t begin = bit / 8;
    const unsigned shift = bit % 8;
    std::uint64_t low = 0;
    std::memcpy(&low, bytes.data() + begin, std::min<std::size_t>(8, bytes.size() - begin));
    low >>= shift;
    if (shift + width > 64) low |= static_cast<std::uint64_t>(bytes[begin + 8]) << (64 - shift);
    return width == 64 ? low : low & ((std::uint64_t{1} << width) - 1);
}

}  // namespace

DeltaDecoder::DeltaDecoder(std::span<const std::byte> bytes) : bytes_(bytes) {
    constexpr std::uint64_t largest_block = std::uint64_t{1} << 20;
    const std::uint64_t block = varint();
    miniblocks_ = varint();
    count_ = left_ = varint();
    value_ = zigzag();
    if (block == 0 || block % 128 != 0 || block > largest_block)
        refuse_delta("a block of ", block, " values");
    if (miniblocks_ == 0 || block % miniblocks_ != 0 || block / miniblocks_ % 32 != 0)
        refuse_delta(miniblocks_, " parts of a block of ", block, " values");
    miniblock_size_ = block / miniblocks_;
    miniblock_ = miniblocks_;
}

std::uint8_t DeltaDecoder::byte() {
    if (at_ == bytes_.size()) refuse_delta("it ends early");
    return static_cast<std::uint8_t>(bytes_[at_++]);
}

std::uint64_t DeltaDecoder::varint() {
    const auto value = read_varint([this] { return byte(); }, varint_bytes_64);
    if (!value) refuse_delta("a number of more than 64 bits");
    return *value;
}

std::uint64_t DeltaDecoder::zigzag() {
    return from_zigzag(varint());
}

void DeltaDecoder::begin_block() {
    least_ = zigzag();
    if (miniblocks_ > bytes_.size() - at_) refuse_delta("it ends early");
    widths_ = at_;
    at_ += miniblocks_;
    miniblock_ = 0;
}

void DeltaDecoder::begin_miniblock() {
    at_ += width_ * miniblock_size_ / 8;
    width_ = 0;
    if (miniblock_ == miniblocks_) begin_block();
    const auto width = static_cast<unsigned>(bytes_[widths_ + miniblock_++]);
    if (width > 64) refuse_delta("differences of ", width, " bits");
    if (width * miniblock_size_ / 8 > bytes_.size() - at_) refuse_delta("it ends early");
    width_ = width;
    bit_ = 0;
    in_miniblock_ = miniblock_size_;
}

std::int64_t DeltaDecoder::next() {
    if (left_ == 0) refuse_delta("it has only ", count_, " numbers");
    const std::uint64_t value = value_;
    if (--left_ > 0) {
        if (in_miniblock_ == 0) begin_miniblock();
        --in_miniblock_;
        value_ += least_ + bits_at(bytes_.subspan(at_), bit_, width_);
        bit_ += width_;
    }
    return static_cast<std::int64_t>(value);
}

std::size_t DeltaDecoder::size() const {
    DeltaDecoder walk = *this;
    // The differences that are left, one less than the numbers.
    std::uint64_t rest = walk.left_ > 0 ? walk.left_ - 1 : 0;
    rest -= std::min(rest, walk.in_miniblock_);
    while (rest > 0) {
        walk.begin_miniblock();
        rest -= std::min(rest, walk.miniblock_size_);
    }
    return walk.at_ + walk.width_ * walk.miniblock_size_ / 8;
}

}  // namespace gptrain
