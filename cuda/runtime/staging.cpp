#include "cuda/runtime/staging.h"

#include <algorithm>
#include <cstring>

namespace gptrain::cuda {
namespace {

/// Size of part `index` of `bytes`, split over buffers.
std::int64_t part_bytes(std::int64_t bytes, std::int64_t index) {
    return std::min(Staging::buffer_bytes, bytes - index * Staging::buffer_bytes);
}

}  // namespace

void Staging::upload(std::byte* to, std::span<const std::byte> from, const Stream& compute) {
    if (host_ == nullptr) {
        copy(to, from.data(), std::ssize(from), compute);
        compute.synchronize();
        return;
    }
    const std::int64_t parts = div_ceil(std::ssize(from), buffer_bytes);
    for (std::int64_t part = 0; part < parts; ++part, ++next_) {
        const StagingBuffer& buffer = buffer_at(next_);
        std::byte* host = host_ + offset_of(next_);
        std::byte* device = device_ + offset_of(next_);
        const std::int64_t bytes = part_bytes(std::ssize(from), part);
        buffer.copied.synchronize();
        std::memcpy(host, from.data() + part * buffer_bytes, static_cast<std::size_t>(bytes));
        stream_.wait(buffer.consumed);
        copy(device, host, bytes, stream_);
        buffer.copied.record(stream_);
        compute.wait(buffer.copied);
        copy(to + part * buffer_bytes, device, bytes, compute);
        buffer.consumed.record(compute);
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
    // Half of the buffers are in flight while the host empties the others. Nothing issued meanwhile
    // changes `from`.
    constexpr std::int64_t ahead = buffers / 2;
    const std::int64_t parts = div_ceil(std::ssize(to), buffer_bytes);
    for (std::int64_t part = 0; part < parts + ahead; ++part) {
        if (part < parts) {
            const StagingBuffer& buffer = buffer_at(next_ + part);
            buffer.copied.synchronize();
            copy(host_ + offset_of(next_ + part), from + part * buffer_bytes,
                 part_bytes(std::ssize(to), part), stream_);
            buffer.copied.record(stream_);
        }
        const std::int64_t arrived = part - ahead;
        if (arrived < 0 || arrived >= parts) continue;
        buffer_at(next_ + arrived).copied.synchronize();
        std::memcpy(to.data() + arrived * buffer_bytes, host_ + offset_of(next_ + arrived),
                    static_cast<std::size_t>(part_bytes(std::ssize(to), arrived)));
    }
    next_ += parts;
}

}  // namespace gptrain::cuda
