// Messages between ranks whose GPUs are stand-ins: hooks for memory that they share, and sums.
#include <utility>
#include <vector>

#include "cuda/ops/rank_sum.h"
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

}  // namespace gptrain
