#include "codec/snappy.h"

#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "codec/lz_copy.h"

namespace gptrain {
namespace {

class Snappy {
public:
    Snappy(std::span<const std::byte> block, std::span<std::byte> out) : in_(block), out_(out) {}

    void unpack() {
        if (const std::uint64_t size = varint(); size != out_.size())
            fail(ExitCode::bad_input, "its Snappy data has ", size, " bytes instead of ",
                 out_.size());
        while (at_ < in_.size())
            element();
        if (written_ != out_.size())
            fail(ExitCode::bad_input, "its Snappy data ends after ", written_, " of ", out_.size(),
                 " bytes");
    }

private:
    /// The next `bytes` bytes, at most 4, as a little-endian number.
    std::size_t number(std::size_t bytes) {
        if (bytes > in_.size() - at_) fail(ExitCode::bad_input, "its Snappy data is cut off");
        std::uint32_t value = 0;
        std::memcpy(&value, in_.data() + at_, bytes);
        at_ += bytes;
        return value;
    }

    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (int shift = 0; shift < 35; shift += 7) {
            const std::uint64_t byte = number(1);
            value |= (byte & 0x7F) << shift;
            if (byte < 0x80) return value;
        }
        fail(ExitCode::bad_input, "its Snappy data has no valid size");
    }

    void element() {
        const std::size_t tag = number(1);
        const std::size_t high = tag >> 2;
        switch (tag & 3) {
            case 0: return literal(high < 60 ? high + 1 : number(high - 59) + 1);
            case 1: {
                const std::size_t offset = (tag >> 5) << 8 | number(1);
                return match(offset, (high & 7) + 4);
            }
            case 2: return match(number(2), high + 1);
            default: return match(number(4), high + 1);
        }
    }

    void literal(std::size_t length) {
        copy_literals(in_, at_, out_, written_, length);
        at_ += length;
        written_ += length;
    }

    void match(std::size_t offset, std::size_t length) {
        copy_match(out_, written_, offset, length);
        written_ += length;
    }

    std::span<const std::byte> in_;
    std::span<std::byte> out_;
    std::size_t at_ = 0;
    std::size_t written_ = 0;
};

}  // namespace

void unpack_snappy(std::span<const std::byte> block, std::span<std::byte> out) {
    Snappy(block, out).unpack();
}

}  // namespace gptrain
