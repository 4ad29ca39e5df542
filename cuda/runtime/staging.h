// Copies between memory that the device cannot reach fast and the device, on a stream of their own:
// they run beside what is computed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// Pieces of memory that are used in turn, each with a part in pinned host memory and one on the
/// device. An upload goes to the device's part beside all computation, and from there to its place
/// in the order of computation, so that a batch is on its way while the one before is computed
/// with. The host waits only when all pieces are on their way. Without that memory every copy is in
/// the order of computation, and the host waits for it.
class Staging {
public:
    static constexpr std::int64_t pieces = 16;
    static constexpr std::int64_t piece_bytes = std::int64_t{1} << 20;
    static constexpr std::int64_t all_bytes = pieces * piece_bytes;

    /// Each [all_bytes], on the host and on the device; before the first copy that is to use it.
    void use_host(const Tensor& memory) { host_ = memory.data(); }
    void use_device(const Tensor& memory) { device_ = memory.data(); }

    /// Has read `from` when it returns; `to` is written in the order of `compute`.
    void upload(std::byte* to, std::span<const std::byte> from, const Stream& compute);
    /// Waits until all is there: `from` as it is in the order of `compute`.
    void download(std::span<std::byte> to, const std::byte* from, const Stream& compute);

private:
    struct Piece {
        Event copied;  ///< behind the last copy on stream_ from or to the host's part
        Event taken;   ///< behind the last copy on the stream of computation from the device's part
    };
    Piece& piece_at(std::int64_t turn) { return pieces_[static_cast<std::size_t>(turn % pieces)]; }
    static std::int64_t offset_of(std::int64_t turn) { return turn % pieces * piece_bytes; }

    std::byte* host_ = nullptr;
    std::byte* device_ = nullptr;
    Stream stream_;
    std::array<Piece, pieces> pieces_;
    Event computed_;
    std::int64_t next_ = 0;
};

}  // namespace gptrain::cuda
