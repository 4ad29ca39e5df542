#include "emulator/peer_hooks.h"

#include <utility>

#include "cuda/runtime/runtime.h"
#include "emulator/memory.h"

namespace gptrain::emulator {

void begin_device_memory(std::byte* data, std::int64_t bytes) {
    adopt(data, bytes);
}
void end_device_memory(std::byte* data) {
    give_back(data);
}
void issue(const cuda::Stream& stream, std::function<void()> work) {
    stream.issue(std::move(work));
}
void issue_wait(const cuda::Stream& stream, std::function<bool()> ready) {
    stream.issue_wait(std::move(ready));
}

}  // namespace gptrain::emulator
