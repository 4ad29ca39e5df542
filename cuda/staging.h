// Copies between memory that the device cannot reach fast and the device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/runtime.h"

namespace gptrain::cuda {

/// Pieces of pinned host memory that are used in turn. An upload waits for the device only when
/// all pieces are on their way. Without that memory every copy waits.
class Staging {
public:
    static constexpr std::int64_t pieces = 16;
    static constexpr std::int64_t piece_bytes = std::int64_t{1} << 20;
    static constexpr std::int64_t all_bytes = pieces * piece_bytes;

    /// `memory` is [all_bytes] on the host.
    void use(const Tensor& memory) { memory_ = memory.data(); }

    /// Has read `from` when it returns; `to` is written in the order of the stream.
    void upload(std::byte* to, std::span<const std::byte> from, const Stream& stream);
    /// Waits until all is there.
    void download(std::span<std::byte> to, const std::byte* from, const Stream& stream);

private:
    struct Piece {
        std::byte* memory;
        const Event& free;  ///< behind the last copy from or to it
    };
    Piece piece_at(std::int64_t turn) {
        const std::int64_t index = turn % pieces;
        return {memory_ + index * piece_bytes, free_[static_cast<std::size_t>(index)]};
    }

    std::byte* memory_ = nullptr;
    std::array<Event, pieces> free_;
    std::int64_t next_ = 0;
};

}  // namespace gptrain::cuda
