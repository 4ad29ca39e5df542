// The two steps that LZ77 formats share. Errors (bad_input) have no place.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "base/error.h"

namespace gptrain {

inline void require_room(std::size_t length, std::size_t room) {
    if (length > room) fail(ExitCode::bad_input, "more data than its header states");
}

/// Copies in[from, from + length) to out[to, ...). Error if either does not have the bytes. May
/// change bytes of `out` behind those that it writes.
inline void copy_literals(std::span<const std::byte> in, std::size_t from, std::span<std::byte> out,
                          std::size_t to, std::size_t length) {
    const std::size_t left = in.size() - from;
    const std::size_t room = out.size() - to;
    constexpr std::size_t block = 32;  // most are short
    if (length <= block && left >= block && room >= block) {
        std::memcpy(out.data() + to, in.data() + from, block);
        return;
    }
    if (length > left) fail(ExitCode::bad_input, "its compressed data is cut off");
    require_room(length, room);
    if (length > 0) std::memcpy(out.data() + to, in.data() + from, length);
}

/// Writes `length` bytes at out[at], which repeat those that begin `offset` bytes before it; the
/// two ranges may overlap. Error if `out` does not have the bytes. May change bytes of `out` behind
/// those that it writes.
inline void copy_match(std::span<std::byte> out, std::size_t at, std::size_t offset,
                       std::size_t length) {
    if (offset == 0 || offset > at)
        fail(ExitCode::bad_input, "a match begins before the data, ", offset, " bytes back");
    const std::size_t room = out.size() - at;
    require_room(length, room);
    std::byte* to = out.data() + at;
    const std::byte* from = to - offset;
    constexpr std::size_t word = 8;
    if (offset >= word && room - length >= word) {
        for (std::size_t i = 0; i < length; i += word)
            std::memcpy(to + i, from + i, word);
    } else {
        for (std::size_t i = 0; i < length; ++i)
            to[i] = from[i];
    }
}

/// Unpacks a block; a format decides which steps.
class LzUnpacker {
public:
    LzUnpacker(std::span<const std::byte> block, std::span<std::byte> out)
        : in_(block), out_(out) {}

protected:
    /// Copies the next bytes of the block.
    void literals(std::size_t length) {
        copy_literals(in_, at_, out_, written_, length);
        at_ += length;
        written_ += length;
    }
    /// Repeats what begins `offset` bytes before the end of what is written.
    void match(std::size_t offset, std::size_t length) {
        copy_match(out_, written_, offset, length);
        written_ += length;
    }

    std::span<const std::byte> in_;
    std::span<std::byte> out_;
    std::size_t at_ = 0;       ///< how much of the block is read
    std::size_t written_ = 0;  ///< how much of `out`
};

}  // namespace gptrain
