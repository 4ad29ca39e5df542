#include "cuda/staging.h"

#include <algorithm>
#include <cstring>

namespace gptrain::cuda {
namespace {

/// Bytes of part `index` of `bytes` that are cut into pieces.
std::int64_t part_bytes(std::int64_t bytes, std::int64_t index) {
    return std::min(Staging::piece_bytes, bytes - index * Staging::piece_bytes);
}

}  // namespace

void Staging::upload(std::byte* to, std::span<const std::byte> from, const Stream& stream) {
    if (memory_ == nullptr) {
        copy(to, from.data(), std::ssize(from), stream);
        stream.synchronize();
        return;
    }
    const std::int64_t parts = div_ceil(std::ssize(from), piece_bytes);
    for (std::int64_t part = 0; part < parts; ++part) {
        const Piece piece = piece_at(next_++);
        const std::int64_t bytes = part_bytes(std::ssize(from), part);
        piece.free.synchronize();
        std::memcpy(piece.memory, from.data() + part * piece_bytes,
                    static_cast<std::size_t>(bytes));
        copy(to + part * piece_bytes, piece.memory, bytes, stream);
        piece.free.record(stream);
    }
}

void Staging::download(std::span<std::byte> to, const std::byte* from, const Stream& stream) {
    if (memory_ == nullptr) {
        copy(to.data(), from, std::ssize(to), stream);
        stream.synchronize();
        return;
    }
    // Half of the pieces are on their way while the host empties the others.
    constexpr std::int64_t ahead = pieces / 2;
    const std::int64_t parts = div_ceil(std::ssize(to), piece_bytes);
    for (std::int64_t part = 0; part < parts + ahead; ++part) {
        if (part < parts) {
            const Piece piece = piece_at(next_ + part);
            piece.free.synchronize();
            copy(piece.memory, from + part * piece_bytes, part_bytes(std::ssize(to), part), stream);
            piece.free.record(stream);
        }
        const std::int64_t arrived = part - ahead;
        if (arrived < 0 || arrived >= parts) continue;
        const Piece piece = piece_at(next_ + arrived);
        piece.free.synchronize();
        std::memcpy(to.data() + arrived * piece_bytes, piece.memory,
                    static_cast<std::size_t>(part_bytes(std::ssize(to), arrived)));
    }
    next_ += parts;
}

}  // namespace gptrain::cuda
