// Copies between the device and pageable host memory. They use their own stream and overlap with
// computation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/runtime/runtime.h"

namespace gptrain::cuda {

/// Staging buffers used in turn, each with a part in pinned host memory and a part on the device.
/// An upload first goes to the device part, overlapped with computation, and from there to its
/// destination in stream order; so a batch is copied while the previous one is computed. The host
/// blocks only when all buffers are in flight. Without this memory every copy runs in stream order
/// and the host waits for it.
class Staging {
public:
    static constexpr std::int64_t buffers = 16;
    static constexpr std::int64_t buffer_bytes = std::int64_t{1} << 20;
    static constexpr std::int64_t all_bytes = buffers * buffer_bytes;

    /// Each [all_bytes]: host and device memory. Call before the first copy that should use it.
    void use_host(const Tensor& memory) { host_ = memory.data(); }
    void use_device(const Tensor& memory) { device_ = memory.data(); }

    /// Has read `from` when it returns; writes `to` in the order of `compute`.
    void upload(std::byte* to, std::span<const std::byte> from, const Stream& compute);
    /// Blocks until the data has arrived: `from` as it is at this point of `compute`.
    void download(std::span<std::byte> to, const std::byte* from, const Stream& compute);

private:
    struct StagingBuffer {
        Event copied;    ///< after the last copy on stream_ from or to the host part
        Event consumed;  ///< after the last copy on the compute stream from the device part
    };
    StagingBuffer& buffer_at(std::int64_t turn) {
        return buffers_[static_cast<std::size_t>(turn % buffers)];
    }
    static std::int64_t offset_of(std::int64_t turn) { return turn % buffers * buffer_bytes; }

    std::byte* host_ = nullptr;
    std::byte* device_ = nullptr;
    Stream stream_;
    std::array<StagingBuffer, buffers> buffers_;
    Event computed_;
    std::int64_t next_ = 0;
};

}  // namespace gptrain::cuda
