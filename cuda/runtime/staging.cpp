#include "cuda/runtime/staging.h"

#include <algorithm>
#include <cstring>

namespace gptrain::cuda {
namespace {

/// Size of part `index` of `bytes`, cut into pieces.
std::int64_t part_bytes(std::int64_t bytes, std::int64_t index) {
    return std::min(Staging::piece_bytes, bytes - index * Staging::piece_bytes);
}

}  // namespace

void Staging::upload(std::byte* to, std::span<const std::byte> from, const Stream& compute) {
    if (host_ == nullptr) {
        copy(to, from.data(), std::ssize(from), compute);
        compute.synchronize();
        return;
    }
    const std::int64_t parts = div_ceil(std::ssize(from), piece_bytes);
    for (std::int64_t part = 0; part < parts; ++part, ++next_) {
        const Piece& piece = piece_at(next_);
        std::byte* host = host_ + offset_of(next_);
        std::byte* device = device_ + offset_of(next_);
        const std::int64_t bytes = part_bytes(std::ssize(from), part);
        piece.copied.synchronize();
        std::memcpy(host, from.data() + part * piece_bytes, static_cast<std::size_t>(bytes));
        stream_.wait(piece.taken);
        copy(device, host, bytes, stream_);
        piece.copied.record(stream_);
        compute.wait(piece.copied);
        copy(to + part * piece_bytes, device, bytes, compute);
        piece.taken.record(compute);
    }
}

void Staging::download(std::span<std::byte> to, const std::byte* from, const Stream& compute) {
    if (host_ == nullptr) {
        copy(to.data(), from, std::ssize(to), compute);
        compute.synchronize();
        return;
    }
    computed_.record(compute);
    stream_.wait(computed_);
    // Half of the pieces are in flight while the host empties the others. Nothing issued meanwhile
    // changes `from`.
    constexpr std::int64_t ahead = pieces / 2;
    const std::int64_t parts = div_ceil(std::ssize(to), piece_bytes);
    for (std::int64_t part = 0; part < parts + ahead; ++part) {
        if (part < parts) {
            const Piece& piece = piece_at(next_ + part);
            piece.copied.synchronize();
            copy(host_ + offset_of(next_ + part), from + part * piece_bytes,
                 part_bytes(std::ssize(to), part), stream_);
            piece.copied.record(stream_);
        }
        const std::int64_t arrived = part - ahead;
        if (arrived < 0 || arrived >= parts) continue;
        piece_at(next_ + arrived).copied.synchronize();
        std::memcpy(to.data() + arrived * piece_bytes, host_ + offset_of(next_ + arrived),
                    static_cast<std::size_t>(part_bytes(std::ssize(to), arrived)));
    }
    next_ += parts;
}

}  // namespace gptrain::cuda
