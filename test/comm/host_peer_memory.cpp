// Messages between ranks whose GPUs are stand-ins: hooks for memory that they share, and sums.
#include <cstring>
#include <utility>
#include <vector>

#include "cuda/ops/rank_sum.h"
#include "cuda/ops/sent_rows.h"
#include "emulator/peer_hooks.h"
#include "host_runtime.h"

namespace gptrain {
namespace emulator {

void begin_device_memory(std::byte* /*data*/, std::int64_t /*bytes*/) {}
void end_device_memory(std::byte* /*data*/) {}
void issue(const cuda::Stream& stream, std::function<void()> work) {
    test::issue(stream.handle(), std::move(work));
}
void issue_wait(const cuda::Stream& stream, std::function<bool()> ready) {
    test::issue_wait(stream.handle(), std::move(ready));
}

}  // namespace emulator

void cuda::reduce_ranks(const ByteRuns& to, std::span<const ByteRuns> from, DType dtype,
                        Reduce reduce, const Stream& stream) {
    test::issue(stream.handle(), [to, from = std::vector(from.begin(), from.end()), dtype, reduce] {
        reduce_runs(to, from, dtype, reduce);
    });
}

void cuda::send_rows(std::span<const SentRows> parts, const Stream& stream) {
    if (parts.empty()) return;
    test::issue(stream.handle(), [parts = std::vector(parts.begin(), parts.end())] {
        for (const SentRows& part : parts) {
            const auto bytes = static_cast<std::size_t>(part.row_bytes);
            for (std::int64_t row = 0; row < part.rows; ++row) {
                std::byte* to = part.to + row * part.row_bytes;
                if (part.slots[row] >= 0) {
                    std::memcpy(to, part.from + row * part.row_bytes, bytes);
                } else {
                    std::memset(to, 0xff, bytes);  // NaN, which nobody may read
                }
            }
        }
    });
}

}  // namespace gptrain
