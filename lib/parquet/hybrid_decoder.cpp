#include "parquet/hybrid_decoder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/varint.h"

namespace gptrain {

HybridDecoder::HybridDecoder(std::span<const std::byte> bytes, int width)
    : bytes_(bytes), width_(width) {
    if (width < 0 || width > 32) fail(ExitCode::bad_input, "numbers of ", width, " bits");
    if (width == 0) left_ = std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t HybridDecoder::varint() {
    const auto byte = [this] {
        if (at_ == bytes_.size()) fail(ExitCode::bad_input, "its levels or indexes end early");
        return static_cast<std::uint64_t>(bytes_[at_++]);
    };
    const auto value = read_varint(byte, varint_bytes_32);
    if (!value) fail(ExitCode::bad_input, "a run of its levels or indexes has no valid length");
    return *value;
}

void HybridDecoder::begin_run() {
    // Runs may be empty.
    while (left_ == 0) {
        at_ += (bits_ + 7) / 8;
        bits_ = 0;
        const std::uint64_t header = varint();
        const std::size_t rest = bytes_.size() - at_;
        packed_ = (header & 1) != 0;
        if (packed_) {
            bit_ = 0;
            // The last group of a page may be cut off behind its last value.
            bits_ = std::min<std::uint64_t>((header >> 1) * 8 * static_cast<unsigned>(width_),
                                            std::uint64_t{rest} * 8);
            left_ = bits_ / static_cast<unsigned>(width_);
        } else {
            const auto size = static_cast<std::size_t>(width_ + 7) / 8;
            if (size > rest) fail(ExitCode::bad_input, "its levels or indexes end early");
            value_ = 0;
            std::memcpy(&value_, bytes_.data() + at_, size);
            if (width_ < 32 && value_ >> width_ != 0)
                fail(ExitCode::bad_input, "a level or index has more than ", width_, " bits");
            at_ += size;
            left_ = header >> 1;
        }
    }
}

std::uint32_t HybridDecoder::unpack() {
    const std::size_t begin = at_ + bit_ / 8;
    std::uint64_t word = 0;
    std::memcpy(&word, bytes_.data() + begin, std::min<std::size_t>(8, bytes_.size() - begin));
    word >>= bit_ % 8;
    bit_ += static_cast<unsigned>(width_);
    return static_cast<std::uint32_t>(word & ((std::uint64_t{1} << width_) - 1));
}

int bits_for(int most) {
    return std::bit_width(static_cast<unsigned>(most));
}

}  // namespace gptrain
