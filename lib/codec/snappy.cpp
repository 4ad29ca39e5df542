#include "codec/snappy.h"

#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/varint.h"
#include "codec/lz_copy.h"

namespace gptrain {
namespace {

class Snappy : private LzUnpacker {
public:
    using LzUnpacker::LzUnpacker;

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
        const auto value = read_varint([this] { return number(1); }, varint_bytes_32);
        if (!value) fail(ExitCode::bad_input, "its Snappy data has no valid size");
        return *value;
    }

    void element() {
        const std::size_t tag = number(1);
        const std::size_t high = tag >> 2;
        switch (tag & 3) {
            case 0: return literals(high < 60 ? high + 1 : number(high - 59) + 1);
            case 1: {
                const std::size_t offset = (tag >> 5) << 8 | number(1);
                return match(offset, (high & 7) + 4);
            }
            case 2: return match(number(2), high + 1);
            default: return match(number(4), high + 1);
        }
    }
};

}  // namespace

void unpack_snappy(std::span<const std::byte> block, std::span<std::byte> out) {
    Snappy(block, out).unpack();
}

}  // namespace gptrain
