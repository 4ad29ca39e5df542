#include "codec/lz4.h"

#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "codec/lz_copy.h"

namespace gptrain {
namespace {

class Lz4 : private LzUnpacker {
public:
    using LzUnpacker::LzUnpacker;

    void unpack() {
        // The last sequence has literals only.
        while (true) {
            const std::size_t token = byte();
            literals(length(token >> 4));
            if (at_ == in_.size()) break;
            const std::size_t low = byte();
            const std::size_t offset = byte() << 8 | low;
            match(offset, length(token & 15) + shortest_match);
        }
        if (written_ != out_.size())
            fail(ExitCode::bad_input, "its LZ4 data has ", written_, " bytes instead of ",
                 out_.size());
    }

private:
    static constexpr std::size_t shortest_match = 4;

    std::size_t byte() {
        if (at_ == in_.size()) fail(ExitCode::bad_input, "its LZ4 data is cut off");
        return static_cast<std::size_t>(in_[at_++]);
    }

    std::size_t length(std::size_t nibble) {
        std::size_t length = nibble;
        if (nibble < 15) return length;
        while (true) {
            const std::size_t more = byte();
            length += more;
            if (more < 255) return length;
        }
    }
};

std::size_t big_endian(std::span<const std::byte> bytes) {
    std::size_t value = 0;
    for (const std::byte byte : bytes.first(4))
        value = value << 8 | static_cast<std::size_t>(byte);
    return value;
}

constexpr std::size_t frame_header = 8;

/// True if sizes of frames add up to both sizes.
bool is_framed(std::span<const std::byte> data, std::size_t size) {
    std::size_t total = 0;
    while (data.size() >= frame_header) {
        total += big_endian(data);
        const std::size_t packed = big_endian(data.subspan(4));
        if (packed > data.size() - frame_header) return false;
        data = data.subspan(frame_header + packed);
    }
    return data.empty() && total == size;
}

}  // namespace

void unpack_lz4(std::span<const std::byte> block, std::span<std::byte> out) {
    Lz4(block, out).unpack();
}

void unpack_hadoop_lz4(std::span<const std::byte> data, std::span<std::byte> out) {
    if (!is_framed(data, out.size())) return unpack_lz4(data, out);
    while (!data.empty()) {
        const std::size_t size = big_endian(data);
        const std::size_t packed = big_endian(data.subspan(4));
        unpack_lz4(data.subspan(frame_header, packed), out.first(size));
        data = data.subspan(frame_header + packed);
        out = out.subspan(size);
    }
}

}  // namespace gptrain
